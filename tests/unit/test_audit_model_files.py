"""Hashes of what a model learned, and models read from files."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler

from cfc.auditing.model_files import load_model_file
from cfc.auditing.model_hash import model_hash
from cfc.auditing.targets import target_of
from cfc.errors import ModelError
from cfc.models import TrainingData, get_family

N = 80
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 3))
Y = (X[:, 0] + X[:, 1] ** 2 > 0.6).astype(int)
MIXED = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": RNG.choice(["u", "v", "w"], N)})


def pipeline(last=None):
    prepare = ColumnTransformer(
        [
            ("n", make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
            ("c", OneHotEncoder(handle_unknown="ignore"), ["c"]),
        ]
    )
    return make_pipeline(prepare, LogisticRegression() if last is None else last).fit(MIXED, Y)


SKLEARN = {
    "logistic": lambda: LogisticRegression().fit(X, Y),
    "forest": lambda: RandomForestClassifier(4, random_state=0).fit(X, Y),
    "extra trees": lambda: ExtraTreesClassifier(4, random_state=0).fit(X, Y),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, Y),
    "hist boosting": lambda: HistGradientBoostingClassifier(max_iter=3, random_state=0).fit(X, Y),
    "neighbours": lambda: KNeighborsClassifier(algorithm="kd_tree").fit(X, Y),
    "bayes": lambda: GaussianNB().fit(X, Y),
    "network": lambda: MLPClassifier((3,), max_iter=500, tol=1e-2, random_state=0).fit(X, Y),
    "calibrated": lambda: CalibratedClassifierCV(LogisticRegression(), cv=2).fit(X, Y),
    "pipeline": pipeline,
    "ufunc": lambda: make_pipeline(FunctionTransformer(np.cbrt), GaussianNB()).fit(X, Y),
}


# ---- hash ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SKLEARN)
def test_hash_of_scikit_learn_models(name, tmp_path):
    skops_io = pytest.importorskip("skops.io")
    model = SKLEARN[name]()
    first = model_hash(model)
    assert len(first) == 64
    int(first, 16)
    model.predict_proba(MIXED if name == "pipeline" else X)
    assert model_hash(model) == first  # asking changes nothing
    assert model_hash(SKLEARN[name]()) == first  # nor does fitting again
    skops_io.dump(model, tmp_path / "m.skops")
    assert model_hash(load_model_file(tmp_path / "m.skops")) == first


def test_hashes_are_the_same_in_another_process(repository):
    script = """
import sys
sys.path[:0] = sys.argv[1:]
import test_audit_model_files as own
print(*[own.model_hash(make()) for make in own.SKLEARN.values()])
"""
    folders = [str(repository / "src"), str(repository / "tests" / "unit")]
    answer = subprocess.run(
        [sys.executable, "-c", script, *folders],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "2"},
    )
    assert answer.stdout.split() == [model_hash(make()) for make in SKLEARN.values()]


def nudge(array):
    """Change one number of a fitted array by the least amount."""
    flat = array.reshape(-1)
    flat[-1] = np.nextafter(flat[-1], np.inf)


CHANGES = {
    "coefficient": ("logistic", lambda m: nudge(m.coef_)),
    "intercept": ("logistic", lambda m: nudge(m.intercept_)),
    "labels": ("logistic", lambda m: setattr(m, "classes_", np.array([1, 0]))),
    "threshold": ("forest", lambda m: nudge(m.estimators_[1].tree_.threshold[:1])),
    "leaf": ("extra trees", lambda m: nudge(m.estimators_[2].tree_.value)),
    "feature": ("boosting", lambda m: m.estimators_[0, 0].tree_.feature.__setitem__(0, 2)),
    "hist threshold": (
        "hist boosting",
        lambda m: m._predictors[0][0].nodes["num_threshold"].__setitem__(0, 9.0),
    ),
    "neighbour": ("neighbours", lambda m: nudge(m._fit_X)),
    "weight": ("network", lambda m: nudge(m.coefs_[1])),
    "calibration": (
        "calibrated",
        lambda m: setattr(m.calibrated_classifiers_[1].calibrators[0], "a_", 0.5),
    ),
    "scaler's mean": ("pipeline", lambda m: nudge(m[0].named_transformers_["n"][1].mean_)),
    "category": (
        "pipeline",
        lambda m: m[0].named_transformers_["c"].categories_[0].__setitem__(0, "t"),
    ),
    "unknown categories": ("pipeline", lambda m: m[0].set_params(c__handle_unknown="error")),
    "order of steps": ("pipeline", lambda m: m[0].transformers_.reverse()),
    "column name": (
        "pipeline",
        lambda m: setattr(m[0], "feature_names_in_", np.array(["A", "b", "c"], dtype=object)),
    ),
    "function": ("ufunc", lambda m: m[0].set_params(func=np.sqrt)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_hash_changes_with_what_was_learned(what):
    name, change = CHANGES[what]
    model = SKLEARN[name]()
    first = model_hash(model)
    change(model)
    assert model_hash(model) != first


def test_hash_ignores_what_changes_no_answer():
    forest = SKLEARN["forest"]()
    first = model_hash(forest)
    assert model_hash(forest.set_params(n_jobs=2, verbose=1)) == first
    found = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2).fit(X, Y)
    assert model_hash(found) == model_hash(LogisticRegression().fit(X, Y))  # no clock of the search
    drawn = MLPClassifier((3,), max_iter=500, tol=1e-2, random_state=np.random.RandomState(0))
    drawn.fit(X, Y)
    first = model_hash(drawn)
    drawn.random_state.random(5)
    assert model_hash(drawn) == first


def test_hash_of_functions_is_their_source():
    def one(rows):
        return rows + 1

    def two(rows):
        # another comment
        return rows + 1

    def three(rows):
        return rows + 2

    step = {f.__name__: FunctionTransformer(f).fit(X) for f in (one, two, three)}
    two.__qualname__ = three.__qualname__ = one.__qualname__
    two.__name__ = three.__name__ = "one"
    source = {name: model_hash(s) for name, s in step.items()}
    assert source["one"] != source["three"]
    assert all(source.values())
    # a number the function was made with counts as well
    made = [FunctionTransformer(lambda rows, by=by: rows * by).fit(X) for by in (2, 3)]
    assert model_hash(made[0]) != model_hash(made[1])


def test_what_cannot_be_walked_has_no_hash():
    import threading

    model = LogisticRegression().fit(X, Y)
    model.lock_ = threading.Lock()
    assert model_hash(model) is None


def boosters() -> dict:
    catboost = pytest.importorskip("catboost")
    lightgbm = pytest.importorskip("lightgbm")
    xgboost = pytest.importorskip("xgboost")
    quiet = {"verbose": 0, "allow_writing_files": False}
    native = MIXED.astype({"c": "category"})
    return {
        "xgboost": xgboost.XGBClassifier(n_estimators=3, enable_categorical=True).fit(native, Y),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(native, Y),
        "catboost": catboost.CatBoostClassifier(
            iterations=9, depth=2, cat_features=["c"], **quiet
        ).fit(MIXED, Y),
    }


SUFFIXES = {"xgboost": (".json", ".ubj"), "lightgbm": (".txt",), "catboost": (".cbm",)}


@pytest.mark.parametrize("library", SUFFIXES)
def test_boosters_from_their_own_files(library, tmp_path):
    model = boosters()[library]
    rows = MIXED if library == "catboost" else MIXED.astype({"c": "category"})
    first = model_hash(model)
    assert first == model_hash(boosters()[library])
    for suffix in SUFFIXES[library]:
        path = tmp_path / f"model{suffix}"
        (model.booster_ if library == "lightgbm" else model).save_model(str(path))
        read = load_model_file(path)
        assert model_hash(read) == first
        target = target_of(read, background=rows)
        np.testing.assert_array_equal(
            target.predict(target.encode(rows)), model.predict_proba(rows)
        )
        assert target.model_hash == first


def test_hash_of_boosters_changes_with_a_tree():
    made = boosters()
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    catboost = pytest.importorskip("catboost")
    native = MIXED.astype({"c": "category"})
    others = [
        xgboost.XGBClassifier(n_estimators=3, enable_categorical=True, reg_lambda=1.01),
        lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, reg_lambda=0.01),
        catboost.CatBoostClassifier(
            iterations=9, depth=2, l2_leaf_reg=3.01, cat_features=["c"], verbose=0,
            allow_writing_files=False,
        ),
    ]  # fmt: skip
    for name, other in zip(made, others, strict=True):
        other.fit(MIXED if name == "catboost" else native, Y)
        assert model_hash(other) != model_hash(made[name]), name
    # another level under the same code
    renamed = native.assign(c=native["c"].cat.rename_categories({"u": "t"}))
    again = lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(renamed, Y)
    assert model_hash(again) != model_hash(made["lightgbm"])


def test_early_stopping_survives_the_file(tmp_path):
    """A classifier stops at its best iteration; the bare booster in its file does not."""
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=30, learning_rate=1.0, early_stopping_rounds=2)
    model.fit(X[:40], Y[:40], eval_set=[(X[40:], Y[40:])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    model.save_model(tmp_path / "m.ubj")
    target = target_of(load_model_file(tmp_path / "m.ubj"), background=X)
    np.testing.assert_array_equal(target.predict(target.encode(X)), model.predict_proba(X))


def test_column_names_for_a_booster_without_them(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    xgboost.XGBClassifier(n_estimators=2).fit(X, Y).save_model(tmp_path / "m.json")
    read = load_model_file(tmp_path / "m.json", columns=["p", "q", "r"])
    rows = pd.DataFrame(X, columns=["p", "q", "r"])
    assert target_of(read, background=rows[["r", "p", "q"]]).columns == ("p", "q", "r")
    with pytest.raises(ModelError, match="takes 3 columns, columns= has 2"):
        load_model_file(tmp_path / "m.json", columns=["p", "q"])
    xgboost.XGBClassifier(n_estimators=2).fit(rows, Y).save_model(tmp_path / "n.json")
    with pytest.raises(ModelError, match="names its columns p, q, r; columns= differs"):
        load_model_file(tmp_path / "n.json", columns=["a", "b", "c"])


def test_torch_modules(tmp_path):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = [torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)]
    module = torch.nn.Sequential(*layers)
    first = model_hash(module)
    assert first == model_hash(torch.nn.Sequential(*layers))
    assert first != model_hash(torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[2]))
    script = torch.jit.script(module)
    torch.jit.save(script, str(tmp_path / "m.pt"))
    read = load_model_file(tmp_path / "m.pt")
    assert model_hash(read) == model_hash(script)
    target = target_of(read, background=X, output="logits")
    own = target_of(module, background=X, output="logits")
    np.testing.assert_allclose(target.predict(target.encode(X)), own.predict(own.encode(X)), 1e-6)
    with torch.no_grad():
        layers[0].bias[0] += 1e-6
    assert model_hash(module) != first


def test_models_of_the_package(tmp_path):
    single = X.astype(np.float32)
    data = TrainingData(single, Y, single, Y, 2, [np.arange(3)], single.mean(axis=0))
    model = get_family("lr").fit(data, {}, seed=0)
    model.save(tmp_path / "own")
    for path in (tmp_path / "own", tmp_path / "own" / "model.json"):
        read = load_model_file(path)
        target = target_of(read, background=X)
        np.testing.assert_array_equal(target.predict(target.encode(X)), model.predict_proba(single))
        assert target.model_hash == model_hash(model)


# ---- files --------------------------------------------------------------------------------------


def test_python_objects_and_factories(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(
        textwrap.dedent(
            """
            import numpy as np

            def predict(rows):
                p = 1 / (1 + np.exp(-rows[:, 0]))
                return np.column_stack([1 - p, p])

            def make():
                return predict

            constant = 3
            """
        )
    )
    for name in ("predict", "make"):
        target = target_of(load_model_file(f"{file}:{name}"), background=X)
        np.testing.assert_allclose(target.predict(X)[:, 1], 1 / (1 + np.exp(-X[:, 0])))
    with pytest.raises(ModelError, match="no 'predcit' there; nearest known: predict"):
        load_model_file(f"{file}:predcit")
    with pytest.raises(ModelError, match="cannot be imported"):
        load_model_file(f"{tmp_path}/absent.py:predict")
    with pytest.raises(ModelError, match="cannot be imported"):
        load_model_file("no_such_package_here:predict")
    with pytest.raises(ModelError, match=r"expected 'package\.module:name'"):
        load_model_file("package:")
    assert load_model_file("math:tau") == pytest.approx(6.283185307)


@pytest.mark.parametrize("name", ["m.pkl", "m.pickle", "m.joblib", "m.PKL", "m.pth"])
def test_pickles_are_never_opened(name, tmp_path):
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    with pytest.raises(ModelError, match=r"runs whatever code is inside.*file.py:function"):
        load_model_file(tmp_path / name)


def test_files_that_are_no_models_are_named(tmp_path):
    def refused(name, content, words, **options):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ModelError, match=words):
            load_model_file(path, **options)

    refused("a.json", b"{", "is not valid JSON")
    refused("b.json", b'{"x": 1}', "no model of XGBoost or CatBoost")
    refused("c.bin", b"?", "give kind=")
    refused("c.bin", b"?", "'sklern' is unknown; .*skops", kind="sklern")
    pytest.importorskip("skops")
    refused("d.skops", b"?", "cannot be read as a skops file")
    pytest.importorskip("lightgbm")
    refused("e.txt", b"tree\nversion=v4\n", "no whole LightGBM model")
    pytest.importorskip("xgboost")
    refused("f.ubj", b"?", "cannot be read as a xgboost model")
    pytest.importorskip("catboost")
    refused("g.cbm", b"?", "cannot be read as a catboost model")
    pytest.importorskip("torch")
    refused("h.pt", b"?", "cannot be read as a torchscript model")
    with pytest.raises(ModelError, match="does not exist"):
        load_model_file(tmp_path / "absent.cbm")
    with pytest.raises(ModelError, match="does not exist"):
        load_model_file(tmp_path / "absent.what")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ModelError, match="is no model folder"):
        load_model_file(tmp_path / "folder")


def test_a_torch_file_with_weights_only_is_refused(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "w.pt")
    with pytest.raises(ModelError, match="cannot be read as a torchscript model"):
        load_model_file(tmp_path / "w.pt")


def double(rows):
    return rows * 2


def test_foreign_code_in_a_skops_file_must_be_trusted_by_name(tmp_path):
    skops_io = pytest.importorskip("skops.io")
    model = make_pipeline(FunctionTransformer(double), GaussianNB()).fit(X, Y)
    skops_io.dump(model, tmp_path / "m.skops")
    name = f"{__name__}.double"
    with pytest.raises(ModelError, match=rf"holds {name}, which could run code.*trusted="):
        load_model_file(tmp_path / "m.skops")
    if __name__ in sys.modules:
        read = load_model_file(tmp_path / "m.skops", trusted=[name])
        np.testing.assert_array_equal(read.predict_proba(X), model.predict_proba(X))
    # a function of a well-known library can do harm as well, with arguments the file chooses
    inner = FunctionTransformer(np.save).fit(X)
    skops_io.dump(inner, tmp_path / "n.skops")
    with pytest.raises(ModelError, match="could run code"):
        load_model_file(tmp_path / "n.skops")


def test_forged_trees_are_refused(tmp_path):
    skops_io = pytest.importorskip("skops.io")
    model = SKLEARN["forest"]()
    model.estimators_[0].tree_.feature[0] = 999
    skops_io.dump(Pipeline([("m", model)]), tmp_path / "m.skops")
    with pytest.raises(ModelError, match="point outside the tree"):
        load_model_file(tmp_path / "m.skops")


def test_a_pipeline_read_from_a_file_is_audited_alike(tmp_path):
    skops_io = pytest.importorskip("skops.io")
    for last in (RandomForestClassifier(4, random_state=0), GaussianNB()):
        model = pipeline(last)
        skops_io.dump(model, tmp_path / "m.skops")
        read = load_model_file(tmp_path / "m.skops")
        for space in ("transformed", "columns"):
            one, two = (target_of(m, background=MIXED, space=space) for m in (model, read))
            np.testing.assert_array_equal(
                one.predict(one.encode(MIXED)), two.predict(two.encode(MIXED))
            )
            assert one.model_hash == two.model_hash
            assert one.coordinates == two.coordinates


def test_nested_encoders_hash_alike_after_the_file(tmp_path):
    skops_io = pytest.importorskip("skops.io")
    steps = ColumnTransformer(
        [("o", OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), ["c"])],
        remainder="passthrough",
    )
    model = make_pipeline(steps, GaussianNB()).fit(MIXED, Y)
    skops_io.dump(model, tmp_path / "m.skops")
    assert model_hash(load_model_file(tmp_path / "m.skops")) == model_hash(model)


def test_json_models_are_told_by_what_they_hold(tmp_path):
    made = boosters()
    made["catboost"].save_model(str(tmp_path / "c.json"), format="json")
    made["xgboost"].save_model(tmp_path / "x.json")
    assert type(load_model_file(tmp_path / "c.json")).__module__.startswith("catboost")
    assert type(load_model_file(tmp_path / "x.json")).__module__.startswith("xgboost")
    target = target_of(load_model_file(tmp_path / "c.json"), background=MIXED)
    np.testing.assert_allclose(
        target.predict(target.encode(MIXED)), made["catboost"].predict_proba(MIXED), rtol=1e-12
    )
    assert json.loads((tmp_path / "c.json").read_text())["features_info"]
