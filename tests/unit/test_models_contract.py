"""One contract for every registered model family."""

import hashlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cfc.errors import ConfigError, ModelError
from cfc.models import FAMILIES, MODULE_OF, TrainingData, get_family, load_model

SRC = str(Path(__file__).parents[2] / "src")
# Small versions of the families: the code paths are those of the real sizes.
SMALL = {
    "lr": {},
    "rf": {"n_estimators": 12},
    "extratrees": {"n_estimators": 12},
    "xgboost": {"n_estimators": 20},
    "lightgbm": {"n_estimators": 20},
    "catboost": {"iterations": 20},
    "mlp": {"max_epochs": 12, "learning_rate": 0.01, "width": 32},
    "resmlp": {"max_epochs": 12, "learning_rate": 0.01, "width": 16, "hidden": 32},
    "fr_resmlp": {"max_epochs": 12, "learning_rate": 0.01, "width": 16, "hidden": 32},
}
CASES = [(family, n_classes) for family in FAMILIES for n_classes in (2, 3)]


def make_data(n_classes, *, n_train=300, seed=5):
    rng = np.random.default_rng(seed)
    n = n_train + 150
    # 11 coordinates: an odd width, so that no kernel sees only whole vectors.
    X = rng.normal(size=(n, 11)).astype(np.float32)
    X[:, 7:] = np.eye(4, dtype=np.float32)[rng.integers(4, size=n)]
    centre = X[:, 0] + 1.5 * X[:, 7] - X[:, 1] * X[:, 2] + rng.normal(scale=0.5, size=n)
    y = np.digitize(centre, np.quantile(centre, np.linspace(0, 1, n_classes + 1)[1:-1]))
    return TrainingData(
        X_train=X[:n_train],
        y_train=y[:n_train],
        X_valid=X[n_train:],
        y_valid=y[n_train:],
        n_classes=n_classes,
        groups=[np.array([i]) for i in range(7)] + [np.arange(7, 11)],
        baseline=X[:n_train].mean(axis=0),
    )


@cache
def fitted(family, n_classes):
    return get_family(family).fit(make_data(n_classes), SMALL[family], seed=3)


def probe(n=1500, d=11):
    return np.random.default_rng(9).normal(scale=1.5, size=(n, d)).astype(np.float32)


@pytest.mark.parametrize(("family", "n_classes"), CASES)
def test_probabilities_are_well_formed_and_learnt(family, n_classes):
    model = fitted(family, n_classes)
    data = make_data(n_classes)
    p = model.predict_proba(data.X_valid)
    assert p.shape == (150, n_classes)
    assert p.dtype == np.dtype(model.predictor_dtype)
    assert p.flags.c_contiguous
    assert (p >= 0).all()
    assert (p <= 1).all()
    np.testing.assert_allclose(p.sum(axis=1, dtype=np.float64), 1, atol=1e-6)
    chance = np.bincount(data.y_valid).max() / 150
    assert (p.argmax(axis=1) == data.y_valid).mean() > chance + 0.05
    assert model.predict_proba(probe(0)).shape == (0, n_classes)


@pytest.mark.parametrize(("family", "n_classes"), CASES)
def test_columns_follow_the_class_codes(family, n_classes):
    # Each class sits in a place of its own, so a column that stands for another class shows.
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), 80)
    X = (8.0 * np.eye(n_classes)[y] + rng.normal(size=(len(y), n_classes))).astype(np.float32)
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    groups = [np.array([i]) for i in range(n_classes)]
    data = TrainingData(X, y, X, y, n_classes, groups, X.mean(axis=0))
    model = get_family(family).fit(data, SMALL[family], seed=1)
    centres = (8.0 * np.eye(n_classes)).astype(np.float32)
    assert model.predict_proba(centres).argmax(axis=1).tolist() == list(range(n_classes))


@pytest.mark.parametrize(("family", "n_classes"), CASES)
def test_a_row_does_not_depend_on_its_neighbours(family, n_classes):
    model = fitted(family, n_classes)
    X = probe()
    whole = model.predict_proba(X)
    order = np.random.default_rng(1).permutation(len(X))
    assert np.array_equal(model.predict_proba(X[order]), whole[order])
    for size in (7, 1000):
        parts = [model.predict_proba(X[i : i + size]) for i in range(0, len(X), size)]
        assert np.array_equal(np.concatenate(parts), whole)
    singly = [model.predict_proba(X[i : i + 1]) for i in range(0, len(X), 5)]
    assert np.array_equal(np.concatenate(singly), whole[::5])
    assert np.array_equal(model.predict_proba(np.asfortranarray(X)), whole)
    # Memory that starts between two vector registers must not choose other kernels.
    shifted = np.empty(X.size + 1, dtype=np.float32)[1:].reshape(X.shape)
    shifted[:] = X
    assert np.array_equal(model.predict_proba(shifted), whole)


@pytest.mark.parametrize("family", FAMILIES)
def test_threads_of_prediction_do_not_matter(family):
    model = fitted(family, 3)
    whole = model.predict_proba(probe())
    model.threads = 2
    try:
        assert np.array_equal(model.predict_proba(probe()), whole)
    finally:
        model.threads = 1


@pytest.mark.parametrize(("family", "n_classes"), CASES)
def test_a_loaded_model_predicts_the_same_bytes(family, n_classes, tmp_path):
    model = fitted(family, n_classes)
    model.save(tmp_path / "a")
    again = load_model(tmp_path / "a")
    assert type(again) is type(model)
    assert again.predict_proba(probe()).tobytes() == model.predict_proba(probe()).tobytes()
    assert (again.params, again.facts) == (model.params, model.facts)
    assert again.model_hash() == model.model_hash()
    again.save(tmp_path / "b")
    for name in ("model.json", model.model_file):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert sorted(os.listdir(tmp_path / "a")) == sorted(["model.json", model.model_file])


CHILD = """
import hashlib, json, sys
sys.path[:0] = {paths!r}
from pathlib import Path
from cfc.models import FAMILIES, get_family
from test_models_contract import SMALL, make_data, probe
out = {{}}
for family in FAMILIES:
    model = get_family(family).fit(make_data(3), SMALL[family], seed=3, threads={threads})
    folder = model.save(Path({folder!r}) / family)
    files = b"".join(p.read_bytes() for p in sorted(folder.iterdir()))
    out[family] = [
        hashlib.sha256(model.predict_proba(probe()).tobytes()).hexdigest(),
        hashlib.sha256(files).hexdigest(),
    ]
print(json.dumps(out))
"""


def start_child(folder, threads):
    code = CHILD.format(
        paths=[SRC, str(Path(__file__).parent)], threads=threads, folder=str(folder)
    )
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture(scope="module")
def children(tmp_path_factory):
    started = [start_child(tmp_path_factory.mktemp("child"), threads) for threads in (1, 2)]
    results = []
    for child in started:
        out, err = child.communicate(timeout=180)
        assert child.returncode == 0, err
        results.append(json.loads(out.splitlines()[-1]))
    return results


@pytest.mark.parametrize("family", FAMILIES)
def test_two_processes_give_the_same_bytes(family, children, tmp_path):
    model = fitted(family, 3)
    folder = model.save(tmp_path / "m")
    files = b"".join(p.read_bytes() for p in sorted(folder.iterdir()))
    own = [
        hashlib.sha256(model.predict_proba(probe()).tobytes()).hexdigest(),
        hashlib.sha256(files).hexdigest(),
    ]
    assert children[0][family] == own


@pytest.mark.parametrize("family", [f for f in FAMILIES if not get_family(f).is_neural])
def test_threads_of_the_fit_do_not_matter(family, children):
    # Not promised for torch, which splits its sums over the threads.
    assert children[1][family] == children[0][family]


@pytest.mark.parametrize("family", FAMILIES)
def test_another_seed_gives_another_model(family):
    data = make_data(3)
    other = get_family(family).fit(data, SMALL[family], seed=4).predict_proba(probe())
    is_equal = np.array_equal(other, fitted(family, 3).predict_proba(probe()))
    assert is_equal == (family == "lr")  # a convex problem has no seed


@pytest.mark.parametrize("family", FAMILIES)
def test_random_state_of_the_caller_is_left_alone(family):
    np.random.seed(7)  # noqa: NPY002 - the global state is what is tested
    before = np.random.get_state()[1].tobytes()  # noqa: NPY002
    get_family(family).fit(make_data(2), SMALL[family], seed=0)
    assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002


@pytest.mark.parametrize("family", FAMILIES)
def test_facts_are_plain_and_say_nothing_of_time(family):
    model = fitted(family, 2)
    json.dumps(model.facts, allow_nan=False)
    assert not any("second" in key for key in model.facts)
    assert model.timings["fit_seconds"] > 0
    assert model.facts["device"] == "cpu"
    for row in model.history:
        assert not any("second" in key for key in row)
    if "best_iteration" in model.facts:
        losses = [row["valid_nll"] for row in model.history]
        assert model.facts["best_iteration"] == int(np.argmin(losses))
        assert model.facts["n_iterations"] == len(losses)
        # The validation loss of the model kept is the one recorded, by our own sum.
        data = make_data(2)
        p = model.predict_proba(data.X_valid).astype(np.float64)
        own = -np.log(p[np.arange(len(p)), data.y_valid]).mean()
        assert own == pytest.approx(model.facts["valid_nll"], rel=1e-4)


@pytest.mark.parametrize("family", ["xgboost", "lightgbm", "catboost", "mlp", "resmlp"])
def test_early_stopping_stops(family):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)).astype(np.float32)
    y = rng.integers(2, size=400)  # nothing to learn
    data = TrainingData(X[:200], y[:200], X[200:], y[200:], 2, [np.arange(4)], X.mean(axis=0))
    model = get_family(family).fit(data, {}, seed=0)
    limit = model.params.get("n_estimators", model.params.get("iterations", 100))
    assert model.facts["n_iterations"] < limit


def test_unusable_data_is_refused_with_every_reason():
    good = make_data(3)
    X = good.X_train.copy()
    X[3, 4] = np.nan
    bad = TrainingData(X, good.y_train, X[:5].astype(float), good.y_valid[:5], 3, [], X[0])
    with pytest.raises(ModelError) as caught:
        get_family("lr").fit(bad, {}, seed=0)
    assert "coordinates 4" in str(caught.value)
    assert "X_valid is float64" in str(caught.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_class_absent_from_train_is_named(family):
    data = make_data(3)
    keep = data.y_train != 1
    bad = TrainingData(
        data.X_train[keep],
        data.y_train[keep],
        data.X_valid,
        data.y_valid,
        3,
        data.groups,
        data.baseline,
    )
    with pytest.raises(ModelError, match="class code 1 does not occur in train"):
        get_family(family).fit(bad, {}, seed=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_unknown_and_bad_parameters_are_listed_together(family):
    first = next(iter(get_family(family).PARAMS))
    with pytest.raises(ConfigError) as caught:
        get_family(family).check_params({first + "x": 1, first: "text", "nonsense": 2})
    text = str(caught.value)
    assert f"unknown parameter '{first}x'; nearest known: " in text
    assert first in text.split("nearest known: ")[1]
    assert f"{first} must be a" in text
    assert "'nonsense'" in text


@pytest.mark.parametrize("value", [True, 0, "3", 1.5])
def test_parameter_types_and_ranges(value):
    with pytest.raises(ConfigError, match="n_estimators must be"):
        get_family("rf").check_params({"n_estimators": value})


def test_whole_numbers_pass_for_numbers():
    assert get_family("lr").check_params({"C": 2}) == {"C": 2.0, "max_iter": 1000, "tol": 1e-4}


@pytest.mark.parametrize("family", FAMILIES)
def test_wrong_rows_are_refused(family):
    model = fitted(family, 2)
    with pytest.raises(ModelError, match="float32 rows of 11 coordinates"):
        model.predict_proba(probe(4).astype(np.float64))
    with pytest.raises(ModelError, match="float32 rows of 11 coordinates"):
        model.predict_proba(probe(4)[:, :5])


def test_registry_names():
    assert FAMILIES == (
        "lr", "rf", "extratrees", "xgboost", "lightgbm", "catboost", "mlp", "resmlp", "fr_resmlp",
    )  # fmt: skip
    assert set(MODULE_OF) == set(FAMILIES)
    with pytest.raises(ConfigError, match="unknown model 'xgbost'; nearest known: xgboost"):
        get_family("xgbost")


def test_families_import_only_their_own_library():
    code = (
        f"import sys; sys.path.insert(0, {SRC!r})\n"
        "import cfc.models\n"
        "heavy = {'sklearn', 'torch', 'xgboost', 'lightgbm', 'catboost', 'shap', 'pandas'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "cfc.models.get_family('lr')\n"
        "heavy -= {'sklearn', 'pandas'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
