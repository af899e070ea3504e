"""The two small tools that look at a finished run."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.workflow


def tool(repository, name, *arguments):
    return subprocess.run(
        [sys.executable, str(repository / "tools" / name), *map(str, arguments)],
        capture_output=True,
        text=True,
    )


def test_show_run_prints_the_main_table_and_the_places(repository, finished):
    run = finished.folder / "results/tiny"
    done = tool(repository, "show_run.py", run)
    assert done.returncode == 0, done.stderr
    assert "CFC-FDS" in done.stdout
    assert f"{run / 'tables'}" in done.stdout
    assert tool(repository, "show_run.py", finished.folder).returncode != 0


def test_draw_certificate_draws_the_case_asked_for(repository, finished, tmp_path):
    file = finished.folder / "results/tiny/certify/breast_cancer/lr/seed0.parquet"
    out = tmp_path / "case.svg"
    done = tool(repository, "draw_certificate.py", file, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "<svg" in out.read_text()[:2000]
    done = tool(repository, "draw_certificate.py", file, "--case", 10**6, "--out", out)
    assert done.returncode != 0
    assert "no certificate of case 1000000" in done.stderr
