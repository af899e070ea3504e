"""The library alone, in an environment of its own with older packages, and files that travel."""

import os
import shutil
import subprocess
import sys
import venv

import pytest

pytestmark = pytest.mark.workflow

OLDER = ["pandas==2.2.3", "numpy==2.1.3", "pyarrow==18.1.0"]
HEAVY = ("torch", "xgboost", "lightgbm", "catboost", "snakemake", "matplotlib", "plotly")

MODEL = """
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

train = pd.read_csv("train.csv", index_col="case")


def fit():
    steps = make_column_transformer(
        (OneHotEncoder(), ["size"]), remainder="passthrough", verbose_feature_names_out=False
    )
    forest = RandomForestClassifier(20, max_depth=4, random_state=0)
    return make_pipeline(steps, forest).fit(train.drop(columns="y"), train["y"])


model = fit()
"""

DATA = """
from sklearn.datasets import load_breast_cancer

frame = load_breast_cancer(as_frame=True).frame.rename(columns={"target": "y"})
frame["size"] = (frame["mean radius"] > 14).map({True: "large", False: "small"})
frame.index.name = "case"
frame.iloc[:400].to_csv("train.csv")
frame.iloc[400:].drop(columns="y").to_csv("cases.csv")
frame.iloc[:400].drop(columns="y").to_csv("background.csv", index=False)
"""

SNIPPET = f"""
import sys, cfc, model, pandas as pd
cases = pd.read_csv("cases.csv", index_col="case")
audit = cfc.audit(model.model, cases, background=model.train.drop(columns="y"), progress=False)
assert len(audit) == 169
print(audit.case())
heavy = [m for m in {HEAVY} if m in sys.modules]
assert not heavy, heavy
"""


@pytest.fixture(scope="module")
def older(tmp_path_factory, repository):
    """Python of an environment that holds the library, installed by `pip install .`, only."""
    folder = tmp_path_factory.mktemp("older") / "env"
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    source = folder.parent / "source"  # a build leaves files beside what it builds
    shutil.copytree(repository / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, source / name)
    command = [python, "-m", "pip", "install", "--quiet", str(source), *OLDER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    offline = ("No matching distribution", "Temporary failure", "NewConnectionError", "Max retries")
    if done.returncode and any(word in done.stderr for word in offline):
        pytest.skip(f"no package index with {', '.join(OLDER)} can be reached")
    assert done.returncode == 0, done.stderr
    return python


def run(python, folder, *words, repository=None):
    path = {"PYTHONPATH": str(repository / "src")} if repository else {}
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | path
    done = subprocess.run(
        [python, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_certificates_travel_between_environments(older, tmp_path, repository):
    (tmp_path / "model.py").write_text(MODEL)
    run(older, tmp_path, "-c", DATA)
    assert "without" in run(older, tmp_path, "-c", SNIPPET)
    assert run(older, tmp_path, "-c", "import pandas; print(pandas.__version__)") == "2.2.3\n"
    model = ["--model", "model.py:model", "--data", "cases.csv", "--index", "case"]
    audit = ["-m", "cfc.auditing.cli", "audit", *model, "--background", "background.csv"]
    verify = ["-m", "cfc.auditing.cli", "verify"]
    run(older, tmp_path, *audit, "--out", "older.parquet", "--quiet")
    run(
        sys.executable, tmp_path, *audit, "--out", "newer.parquet", "--quiet", repository=repository
    )
    for python, file, where in (
        (sys.executable, "older.parquet", repository),
        (older, "newer.parquet", None),
    ):
        said = run(python, tmp_path, *verify, file, *model, repository=where)
        assert "all agree" in said, said


def test_the_installed_command_is_there(older, tmp_path):
    done = subprocess.run(
        [older.parent / "cfc", "--help"], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0
    assert "exit codes:" in done.stdout
