"""Model folders that must be refused, and families of one's own."""

import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from cfc.errors import ConfigError, ModelError
from cfc.models import FAMILIES, TrainingData, get_family, load_model
from cfc.models.registry import own_file

SMALL = {
    "rf": {"n_estimators": 3},
    "extratrees": {"n_estimators": 3},
    "xgboost": {"n_estimators": 3},
    "lightgbm": {"n_estimators": 3},
    "catboost": {"iterations": 3},
    "mlp": {"max_epochs": 1, "width": 8},
    "resmlp": {"max_epochs": 1, "width": 8, "hidden": 8},
    "fr_resmlp": {"max_epochs": 1, "width": 8, "hidden": 8},
}


def data(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 4)).astype(np.float32)
    y = (X[:, 0] + 0.3 * rng.normal(size=120) > 0).astype(int)
    groups = [np.array([0, 1]), np.array([2, 3])]
    return TrainingData(X[:80], y[:80], X[80:], y[80:], 2, groups, X.mean(axis=0))


@pytest.fixture(scope="module", params=FAMILIES)
def saved(request, tmp_path_factory):
    family = request.param
    model = get_family(family).fit(data(), SMALL.get(family, {}), seed=0)
    return model, model.save(tmp_path_factory.mktemp("models") / family)


def copy(folder, target, *, content=None, **changes):
    """Copy a model folder with another model file and other entries, its hash made to fit."""
    description = json.loads((folder / "model.json").read_text())
    content = (folder / description["file"]).read_bytes() if content is None else content
    target.mkdir()
    (target / description["file"]).write_bytes(content)
    description |= {"sha256": hashlib.sha256(content).hexdigest()} | changes
    (target / "model.json").write_text(json.dumps(description))
    return target


def test_changed_bytes_are_refused(saved, tmp_path):
    model, folder = saved
    target = copy(folder, tmp_path / "m")
    path = target / model.model_file
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="SHA-256 differs"):
        load_model(target)


def test_a_pickle_is_refused(saved, tmp_path):
    model, folder = saved

    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was read",))

    content = pickle.dumps(Bomb())
    with pytest.raises(ModelError, match=model.model_file):
        load_model(copy(folder, tmp_path / "m", content=content))


def test_a_truncated_file_with_a_fitting_hash_is_refused(saved, tmp_path):
    model, folder = saved
    content = (folder / model.model_file).read_bytes()
    with pytest.raises(ModelError, match=model.model_file):
        load_model(copy(folder, tmp_path / "m", content=content[: len(content) // 3]))


def test_another_number_of_coordinates_or_classes_is_refused(saved, tmp_path):
    _, folder = saved
    with pytest.raises(ModelError):
        load_model(copy(folder, tmp_path / "d", n_features=5))
    with pytest.raises(ModelError):
        load_model(copy(folder, tmp_path / "c", n_classes=3))


def test_description_is_checked(saved, tmp_path):
    model, folder = saved
    with pytest.raises(ModelError, match="unknown family 'svm'"):
        load_model(copy(folder, tmp_path / "a", family="svm"))
    with pytest.raises(ModelError, match="format version 99"):
        load_model(copy(folder, tmp_path / "b", format_version=99))
    other = "lr" if model.family != "lr" else "mlp"
    with pytest.raises(ModelError, match=f"not '{other}'"):
        get_family(other).load(folder)
    with pytest.raises(ModelError, match="kept in"):
        load_model(copy(folder, tmp_path / "c", file="../../elsewhere"[:5] + "x"))
    (tmp_path / "c" / "model.json").write_text("{")
    with pytest.raises(ModelError, match="not valid JSON"):
        load_model(tmp_path / "c")
    (tmp_path / "c" / "model.json").write_text('{"family": 3}')
    with pytest.raises(ModelError, match="'family' is missing or not of type str"):
        load_model(tmp_path / "c")


def test_a_folder_with_only_a_pickle_is_refused(tmp_path):
    (tmp_path / "model.pkl").write_bytes(pickle.dumps({}))
    with pytest.raises(ModelError, match=r"model\.pkl may be a pickled file"):
        load_model(tmp_path)
    with pytest.raises(ModelError, match=r"no model\.json"):
        load_model(tmp_path / "absent")


def test_unexpected_types_in_a_skops_file_are_refused(tmp_path):
    import skops.io
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    train = data()
    folder = get_family("lr").fit(train, {}, seed=0).save(tmp_path / "good")
    wrong = skops.io.dumps(GaussianNB().fit(train.X_train, train.y_train))
    with pytest.raises(ModelError, match="holds a GaussianNB, not a LogisticRegression"):
        load_model(copy(folder, tmp_path / "a", content=wrong))
    estimator = LogisticRegression().fit(train.X_train, train.y_train)
    estimator.extra = TrainingData(*[None] * 7)
    with pytest.raises(ModelError, match=r"unexpected types.*TrainingData"):
        load_model(copy(folder, tmp_path / "b", content=skops.io.dumps(estimator)))


@pytest.mark.parametrize("field", ["left_child", "right_child", "feature"])
def test_a_forest_with_wild_node_numbers_is_refused(field, tmp_path):
    model = get_family("rf").fit(data(), SMALL["rf"], seed=0)
    folder = model.save(tmp_path / "good")
    forged = io.BytesIO()
    with (
        zipfile.ZipFile(folder / "model.skops") as source,
        zipfile.ZipFile(forged, "w") as target,
    ):
        for name in source.namelist():
            content = source.read(name)
            if name.endswith(".npy"):
                array = np.load(io.BytesIO(content), allow_pickle=False)
                if array.dtype.names and field in array.dtype.names:
                    array[field][0] = 1_000_000
                    buffer = io.BytesIO()
                    np.save(buffer, array)
                    content = buffer.getvalue()
            target.writestr(name, content)
    with pytest.raises(ModelError, match="outside the tree"):
        load_model(copy(folder, tmp_path / "bad", content=forged.getvalue()))


def test_saving_again_replaces_the_folder(tmp_path):
    first = get_family("lr").fit(data(), {}, seed=0)
    second = get_family("lr").fit(data(1), {"C": 0.1}, seed=0)
    first.save(tmp_path / "m")
    second.save(tmp_path / "m")
    assert load_model(tmp_path / "m").params["C"] == 0.1
    assert first.model_hash() != second.model_hash()


OWN = """
import numpy as np
from cfc.models import Model, Param

class Prior(Model):
    family = "prior"
    library = "numpy"
    model_file = "model.npy"
    PARAMS = {"pseudo_count": Param(1.0, "added to every class", low=0.0)}

    @classmethod
    def _fit(cls, data, params, *, seed, threads, device):
        model = cls(n_classes=data.n_classes, n_features=data.X_train.shape[1], params=params)
        counts = np.bincount(data.y_train, minlength=data.n_classes) + params["pseudo_count"]
        model.p = counts / counts.sum()
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

class Unfinished(Model):
    family = "unfinished"
"""


def test_a_family_of_ones_own_from_a_file(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    cls = get_family("my_prior", f"{path}:Prior")
    model = cls.fit(data(), {"pseudo_count": 0}, seed=0)
    y = data().y_train
    assert model.predict_proba(data().X_valid)[0, 1] == pytest.approx(y.mean())
    model.save(tmp_path / "m")
    with pytest.raises(ModelError, match="unknown family 'prior'"):
        load_model(tmp_path / "m")
    again = load_model(tmp_path / "m", f"{path}:Prior")
    assert type(again) is cls
    assert np.array_equal(again.p, model.p)


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (":Priro", "no class 'Priro' there; nearest known: Prior"),
        (":Unfinished", "does not define"),
        ("", "expected 'package.module:ClassName'"),
    ],
)
def test_own_families_that_cannot_be_used(tail, message, tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    with pytest.raises(ConfigError, match=message):
        get_family("my_prior", f"{path}{tail}")


def test_the_file_of_a_family_of_ones_own_is_found_without_running_it(tmp_path, monkeypatch):
    package = tmp_path / "ours"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "own.py").write_text("raise RuntimeError('this module was run')")
    monkeypatch.chdir(tmp_path)
    assert own_file("ours/own.py:Prior") == package / "own.py"  # from the working folder
    with pytest.raises(ConfigError, match=r"no module 'ours\.own' .*, as in ours/own\.py:Prior"):
        own_file("ours.own:Prior")
    monkeypatch.syspath_prepend(tmp_path)
    assert own_file("ours.own:Prior") == package / "own.py"
    with pytest.raises(ConfigError, match=r"no file .*on\.py; nearest known: own\.py"):
        own_file("ours/on.py:Prior")
    for target in ("sys:X", "no_such_module_anywhere.own:X", "ours:own:"):
        with pytest.raises(ConfigError):
            own_file(target)


@pytest.mark.parametrize("target", ["no_such_module_anywhere:X", "/nowhere/own.py:X", "json:dumps"])
def test_own_families_that_are_not_there(target):
    with pytest.raises(ConfigError, match="model 'mine'"):
        get_family("mine", target)


def test_skops_can_be_the_first_thing_a_process_loads(repository):
    code = "from cfc.models.sklearn_files import skops_io; print(skops_io().__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(repository / "src")},
    )
    assert done.stdout == "skops.io\n", done.stderr
