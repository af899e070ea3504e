"""A data set and families of one's own: found from the working folder, re-run when they change."""

import numpy as np
import pytest
import yaml

pytestmark = pytest.mark.workflow
FAMILY = """
import numpy as np
from cfc.models import Model

class Prior(Model):
    family = "prior"
    library = "numpy"
    model_file = "model.npy"

    @classmethod
    def _fit(cls, data, params, *, seed, threads, device):
        model = cls(n_classes=data.n_classes, n_features=data.X_train.shape[1], params=params)
        model.p = np.bincount(data.y_train, minlength=data.n_classes) / len(data.y_train)
        return model

    def _predict_proba(self, X):
        return np.tile(self.p, (len(X), 1))

    def _to_bytes(self):
        return self.p.tobytes()

    @classmethod
    def _from_bytes(cls, content, base):
        model = cls(**base)
        model.p = np.frombuffer(content)
        return model
"""
ENTRIES = {
    "run": "own",
    "datasets": ["mine"],
    "models": ["by_file", "by_module"],
    "seeds": [0],
    "analyses": [],
    "dataset_registry": {
        "mine": {
            "source": {"kind": "file", "path": "data/rows.csv"},
            "target": "y",
            "classes": ["no", "yes"],
            "fields": {"b": "numeric", "a": {"kind": "nominal", "unavailable": ["unknown"]}},
        }
    },
    "model_registry": {
        "by_file": {"class": "families/prior.py:Prior"},
        "by_module": {"class": "families.prior:Prior"},
    },
}
TARGETS = [f"results/own/certify/mine/{m}/seed0.parquet" for m in ENTRIES["models"]]
AFTER_TRAINING = {"train_model": 2, "certify_cases": 2}
AFTER_DATA = {"acquire_data": 1, "split_rows": 1, "prepare_data": 1, **AFTER_TRAINING}


def write(folder, entries=ENTRIES):
    random = np.random.default_rng(0)
    rows = [f"{'xy'[i % 2]},{random.normal():.3f},{['no', 'yes'][i % 3 == 0]}" for i in range(60)]
    (folder / "data").mkdir()
    (folder / "data/rows.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    (folder / "families").mkdir()
    (folder / "families/prior.py").write_text(FAMILY)
    (folder / "own.yaml").write_text(yaml.safe_dump(entries, sort_keys=False))


@pytest.fixture
def own(workflow, monkeypatch):
    """A workflow in a folder of one's own; every call adds the overlay there."""
    write(workflow.folder)
    monkeypatch.setenv("PYTHONPATH", str(workflow.folder))
    overlays = ("config/tiny.yaml", workflow.folder / "own.yaml")

    def run(*arguments):
        return workflow(*arguments, overlays=overlays)

    run.folder = workflow.folder
    run.plan = lambda: workflow.plan(*TARGETS, overlays=overlays)
    return run


def test_editing_ones_own_files_runs_what_depends_on_them(own):
    outcome = own(*TARGETS)
    assert outcome.code == 0, outcome.text
    assert outcome.jobs == AFTER_DATA
    assert own.plan() == {}

    file = own.folder / "families/prior.py"
    file.write_text(FAMILY + "# a remark\n")
    assert own.plan() == {}
    file.write_text(FAMILY.replace("np.tile(self.p,", "np.tile(self.p[::-1],"))
    assert own.plan() == AFTER_TRAINING
    file.write_text(FAMILY)

    rows = own.folder / "data/rows.csv"
    rows.write_text(rows.read_text() + "x,0.5,no\n")
    assert own.plan() == AFTER_DATA


def test_what_is_not_there_is_said_before_the_first_job(own):
    (own.folder / "data/rows.csv").rename(own.folder / "data/row.csv")
    outcome = own("mine_by_file")
    assert outcome.code != 0
    assert "data set mine: no file data/rows.csv in" in outcome.text
    assert "nearest known: row.csv" in outcome.text

    (own.folder / "families/prior.py").rename(own.folder / "families/priors.py")
    outcome = own("mine_by_file")
    assert outcome.code != 0
    for words in (
        "model_registry.by_file.class: no file",
        "nearest known: priors.py",
        "model_registry.by_module.class: no module 'families.prior' on Python's path",
    ):
        assert words in outcome.text


@pytest.mark.parametrize(
    ("name", "model", "taken"),
    [
        ("train", "by_file", "data set train: the target train is a stage already"),
        ("train", "model", "model: the target train_model is a rule already"),
        ("mine", "certify", "model certify: the target certify is a stage already"),
        ("credit", "g", "data set credit with model g: the target credit_g is data set credit_g"),
    ],
)
def test_a_name_that_is_a_target_already_is_refused(workflow, name, model, taken):
    entries = {
        **ENTRIES,
        "datasets": [name],
        "models": [model],
        "dataset_registry": {name: ENTRIES["dataset_registry"]["mine"]},
        "model_registry": {model: ENTRIES["model_registry"]["by_file"]},
    }
    write(workflow.folder, entries)
    outcome = workflow("-n", overlays=("config/tiny.yaml", workflow.folder / "own.yaml"))
    assert outcome.code != 0
    assert taken in outcome.text
