"""A small way to run the workflow in a temporary folder."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Outcome:
    code: int
    text: str

    @property
    def jobs(self) -> dict[str, int]:
        """Planned jobs by rule, from the table Snakemake prints first."""
        found = re.search(r"Job stats:\n(.*?)\ntotal", self.text, re.S)
        lines = found[1].splitlines()[2:] if found else []
        return {name: int(count) for name, count in (line.split() for line in lines)}


class Workflow:
    """Runs Snakemake on this repository's Snakefile with a folder of its own."""

    def __init__(self, folder: Path):
        self.folder = folder

    def command(self, *arguments: str, overlays=("config/tiny.yaml",), profile="default"):
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(REPOSITORY / "Snakefile")]
        command += ["--directory", str(self.folder), *map(str, arguments)]
        command += ["--workflow-profile", str(REPOSITORY / "profiles" / profile)]
        if overlays:
            command += ["--configfile", *(str(REPOSITORY / o) for o in overlays)]
        return command

    def __call__(self, *arguments, cores=2, **options) -> Outcome:
        done = subprocess.run(
            [*self.command(*arguments, **options), *(["--cores", str(cores)] if cores else [])],
            cwd=self.folder,
            capture_output=True,
            text=True,
            env={**os.environ, "NO_COLOR": "1"},
            timeout=600,
        )
        return Outcome(done.returncode, done.stdout + done.stderr)

    def plan(self, *arguments, **options) -> dict[str, int]:
        outcome = self("-n", *arguments, **options)
        assert outcome.code == 0, outcome.text
        return outcome.jobs


@pytest.fixture
def workflow(tmp_path) -> Workflow:
    return Workflow(tmp_path)


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Workflow:
    """A folder with a finished tiny run; tests may plan in it, not write."""
    workflow = Workflow(tmp_path_factory.mktemp("finished"))
    outcome = workflow()
    assert outcome.code == 0, outcome.text
    return workflow


@pytest.fixture(scope="session")
def finished_recourse(tmp_path_factory) -> Workflow:
    """A folder with a finished tiny recourse run; tests may plan in it, not write."""
    workflow = Workflow(tmp_path_factory.mktemp("recourse"))
    outcome = workflow("recourse", overlays=("config/recourse_tiny.yaml",))
    assert outcome.code == 0, outcome.text
    return workflow


@pytest.fixture
def tool(repository):
    """Return a function that runs one of the small tools and captures what it says."""

    def run(name: str, *arguments) -> subprocess.CompletedProcess:
        command = [sys.executable, str(repository / "tools" / name), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True)

    return run
