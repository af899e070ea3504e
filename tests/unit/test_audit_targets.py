"""Every accepted kind of model, asked through a target, answers as it does by itself."""

import functools
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    RidgeClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
    TargetEncoder,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from cfc.auditing.raw_columns import Preprocessor
from cfc.auditing.tables import UNSEEN
from cfc.auditing.targets import probe, target_of
from cfc.errors import ConfigError, DataError, ModelError
from cfc.models import TrainingData, get_family

N = 120
RNG = np.random.default_rng(7)
ARRAY = RNG.normal(size=(N, 4))
NUMBERS = pd.DataFrame(ARRAY, columns=["a", "b", "c", "d"], index=np.arange(N) + 1000)
NUMBERS = NUMBERS.assign(d=(NUMBERS["d"] * 3).round().astype(int))
MIXED = pd.DataFrame(
    {
        "age": ARRAY[:, 0],
        "job": pd.Series(RNG.choice(["x", "y", "z"], N), dtype=object),
        "grade": pd.Categorical(RNG.choice(["low", "high"], N), ["low", "mid", "high"]),
        "code": pd.Categorical(RNG.integers(0, 4, N) * 10),
        "owner": RNG.random(N) < 0.5,
        "visits": RNG.integers(0, 9, N),
        "room no": ARRAY[:, 1],
    }
)
MIXED.loc[3, "age"] = np.nan
SCORE = ARRAY[:, 0] + (MIXED["job"] == "x") - (MIXED["grade"] == "low") + 0.3 * ARRAY[:, 1]
TWO = np.where(SCORE.median() < SCORE, "yes", "no")
THREE = np.digitize(SCORE, SCORE.quantile([0.33, 0.66]))
CODES = (TWO == "yes").astype(int)
NATIVE = MIXED.assign(job=MIXED["job"].astype("category"))  # for XGBoost and LightGBM
NATIVE.loc[5, "job"] = np.nan
PLAIN = MIXED.assign(code=MIXED["code"].astype(int))


def containers(rows: pd.DataFrame) -> dict:
    """Return the same rows in other containers, column orders and dtypes."""
    plain = rows.reset_index(drop=True)
    held = {
        "reversed": rows[rows.columns[::-1]],
        "arrow": pa.Table.from_pandas(plain),
        "arrow-backed": rows.convert_dtypes(dtype_backend="pyarrow"),
        "objects": rows.astype(object),
    }
    try:
        import polars
    except ModuleNotFoundError:
        return held
    return held | {"polars": polars.from_pandas(plain)}


def columns(**options) -> ColumnTransformer:
    """Return a preprocessor of the usual kinds; `visits` is numeric, but encoded as levels."""
    options = {"sparse_threshold": 0.0} | options
    return ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["age", "room no"]),
            ("levels", OneHotEncoder(handle_unknown="ignore"), ["job", "grade", "visits"]),
            ("ordinal", OrdinalEncoder(), ["code", "owner"]),
        ],
        **options,
    )


# ---- models on a matrix of numbers --------------------------------------------------------------

BY_ITSELF = {
    "logistic": (LogisticRegression(), False),
    "logistic, cv": (LogisticRegressionCV(Cs=2, cv=2, l1_ratios=(0,)), False),
    "forest": (RandomForestClassifier(9, random_state=0, n_jobs=2), True),
    "extra trees": (ExtraTreesClassifier(9, random_state=0), True),
    "tree": (DecisionTreeClassifier(max_depth=3), True),
    "boosting": (GradientBoostingClassifier(n_estimators=5), True),
    "hist boosting": (HistGradientBoostingClassifier(max_iter=5), True),
    "bagging": (BaggingClassifier(n_estimators=4, random_state=0), True),
    "neighbours": (KNeighborsClassifier(), False),
    "bayes": (GaussianNB(), False),
    "network": (MLPClassifier((6,), max_iter=400, tol=1e-2, random_state=0), False),
    "svc": (CalibratedClassifierCV(LinearSVC(), cv=2), False),
}


def boosters() -> dict:
    catboost = pytest.importorskip("catboost")
    lightgbm = pytest.importorskip("lightgbm")
    xgboost = pytest.importorskip("xgboost")
    return {
        "xgboost": xgboost.XGBClassifier(n_estimators=5, max_depth=3),
        "xgboost, early": xgboost.XGBClassifier(
            n_estimators=40, max_depth=2, learning_rate=1.0, early_stopping_rounds=2
        ),
        "xgboost, missing": xgboost.XGBClassifier(n_estimators=5, missing=0.0),
        "xgboost, dart": xgboost.XGBClassifier(n_estimators=5, booster="dart"),
        "lightgbm": lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, min_child_samples=5),
        "catboost": catboost.CatBoostClassifier(
            iterations=5, depth=3, verbose=0, allow_writing_files=False
        ),
    }


@functools.cache
def fitted(name: str, n_classes: int, is_frame: bool):
    X = NUMBERS if is_frame else ARRAY
    y = {2: TWO, 3: THREE}[n_classes]
    if name in BY_ITSELF:
        return clone(BY_ITSELF[name][0]).fit(X, y)
    model = boosters()[name]
    y = np.unique(y, return_inverse=True)[1] if "xgboost" in name else y
    if "early" in name:
        return model.fit(X[:80], y[:80], eval_set=[(X[80:], y[80:])], verbose=False)
    return model.fit(X, y)


BOOSTED = ["xgboost", "xgboost, early", "xgboost, missing", "xgboost, dart", "lightgbm", "catboost"]
NAMES = [*BY_ITSELF, *BOOSTED]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_models_on_arrays_answer_as_by_themselves(name, n_classes):
    model = fitted(name, n_classes, False)
    target = target_of(model, background=ARRAY)
    expected = model.predict_proba(ARRAY)
    matrix = target.encode(ARRAY)
    assert (target.space, matrix.dtype, matrix.flags.c_contiguous) == ("matrix", target.dtype, True)
    assert target.classes == tuple(model.classes_.tolist())
    assert target.columns == ("x0", "x1", "x2", "x3")
    assert [(c.field, c.kind) for c in target.coordinates] == [(f"x{i}", "value") for i in range(4)]
    answer = target.predict(matrix)
    if target.is_exact:
        np.testing.assert_array_equal(answer, expected)
        assert answer.dtype == expected.dtype
        # the same bytes in other batches and orders
        order = np.random.default_rng(0).permutation(N)
        np.testing.assert_array_equal(target.predict(matrix[order]), expected[order])
        parts = [target.predict(matrix[i : i + 7]) for i in range(0, N, 7)]
        np.testing.assert_array_equal(np.concatenate(parts), expected)
    else:
        np.testing.assert_allclose(answer, expected, rtol=1e-12, atol=1e-15)
    is_booster = name not in BY_ITSELF
    assert target.is_exact == (is_booster or BY_ITSELF[name][1])


@pytest.mark.parametrize("name", NAMES)
def test_models_on_frames_take_every_container(name):
    model = fitted(name, 2, True)
    target = target_of(model, background=NUMBERS)
    assert (target.space, target.columns) == ("columns", ("a", "b", "c", "d"))
    expected = model.predict_proba(NUMBERS)
    matrix = target.encode(NUMBERS)
    answer = target.predict(matrix)
    if target.is_exact:
        np.testing.assert_array_equal(answer, expected)
    np.testing.assert_allclose(answer, expected, rtol=1e-12, atol=1e-15)
    for key, rows in (containers(NUMBERS) | {"array": NUMBERS.to_numpy()}).items():
        np.testing.assert_array_equal(target.encode(rows), matrix, err_msg=key)


def test_facts_of_models():
    def facts(name):
        target = target_of(fitted(name, 2, False), background=ARRAY)
        return target.kind, target.dtype, target.n_trees, bool(target.takes_missing.all())

    assert facts("logistic") == ("sklearn", "float64", None, False)
    assert facts("forest") == ("sklearn", "float32", 9, True)
    assert facts("extra trees") == ("sklearn", "float32", 9, True)
    assert facts("bagging") == ("sklearn", "float64", 4, True)
    assert facts("tree") == ("sklearn", "float32", None, True)
    assert facts("boosting") == ("sklearn", "float32", None, False)
    assert facts("hist boosting") == ("sklearn", "float64", None, True)
    assert facts("xgboost") == ("xgboost", "float32", None, True)
    assert facts("lightgbm") == ("lightgbm", "float64", None, True)
    assert facts("catboost") == ("catboost", "float32", None, True)


def test_the_users_model_is_left_alone():
    forest = fitted("forest", 2, True)
    target_of(forest, background=NUMBERS).predict(np.zeros((1, 4), np.float32))
    assert forest.n_jobs == 2
    assert forest.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    network = fitted("network", 2, True)
    target_of(network, background=NUMBERS)
    assert network.feature_names_in_.tolist() == ["a", "b", "c", "d"]


def test_missing_numbers_reach_the_models_that_take_them():
    gaps = NUMBERS.astype(float)
    gaps.iloc[::3, 1] = np.nan
    for name in ("forest", "hist boosting", "xgboost", "lightgbm", "catboost"):
        model = fitted(name, 2, True)
        target = target_of(model, background=gaps)
        np.testing.assert_array_equal(
            target.predict(target.encode(gaps)), model.predict_proba(gaps), err_msg=name
        )
    target = target_of(fitted("logistic", 2, True), background=NUMBERS)
    with pytest.raises(DataError, match=r"column 'b' is missing in 40 rows \(first: row 0\)"):
        target.encode(gaps)


def test_a_matrix_model_needs_no_rows_to_be_described():
    for name in ("forest", "xgboost", "lightgbm", "catboost", "logistic"):
        model = fitted(name, 2, False)
        target = target_of(model, background=None)
        np.testing.assert_allclose(
            target.predict(target.encode(ARRAY)), model.predict_proba(ARRAY), rtol=1e-12
        )


def test_categorical_columns_of_numbers_are_codes():
    X = np.column_stack([ARRAY[:, 0], RNG.integers(0, 3, N) * 2])
    model = HistGradientBoostingClassifier(max_iter=4, categorical_features=[1]).fit(X, TWO)
    target = target_of(model, background=X)
    assert [c.kind for c in target.coordinates] == ["value", "code"]
    assert target.levels == {"x1": ["0", "2", "4"]}
    np.testing.assert_array_equal(target.predict(target.encode(X)), model.predict_proba(X))
    # declared by the user: a forest on label-encoded numbers
    target = target_of(fitted("forest", 2, True), background=NUMBERS, nominal=["d"])
    assert target.column_kinds == dict.fromkeys("abc", "numeric") | {"d": "nominal"}
    np.testing.assert_array_equal(
        target.predict(target.encode(NUMBERS)), fitted("forest", 2, True).predict_proba(NUMBERS)
    )


def test_truth_values_are_codes_even_where_a_model_takes_numbers():
    rows = NUMBERS.assign(a=NUMBERS["a"] > 0)
    model = RandomForestClassifier(5, random_state=0).fit(rows, TWO)
    target = target_of(model, background=rows)
    assert [c.kind for c in target.coordinates] == ["code", "value", "value", "value"]
    expected = model.predict_proba(rows)
    for key, held in (containers(rows) | {"numbers": rows.astype(float)}).items():
        np.testing.assert_array_equal(target.predict(target.encode(held)), expected, err_msg=key)


# ---- native categoricals ------------------------------------------------------------------------


@functools.cache
def native(library: str, n_classes: int):
    y = {2: CODES, 3: THREE}[n_classes]
    if library == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        model = xgboost.XGBClassifier(n_estimators=6, enable_categorical=True)
        return model.fit(NATIVE, y), NATIVE
    if library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        model = lightgbm.LGBMClassifier(n_estimators=6, verbose=-1, min_child_samples=5)
        return model.fit(NATIVE, np.array(["p", "q", "r"])[y]), NATIVE
    catboost = pytest.importorskip("catboost")
    rows = PLAIN.assign(grade=PLAIN["grade"].astype(object))
    model = catboost.CatBoostClassifier(
        iterations=12,
        depth=3,
        verbose=0,
        allow_writing_files=False,
        cat_features=["job", "grade", 3],
    )
    return model.fit(rows, np.array(["p", "q", "r"])[y]), rows


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_native_categoricals(library, n_classes):
    model, rows = native(library, n_classes)
    target = target_of(model, background=rows)
    expected = model.predict_proba(rows)
    matrix = target.encode(rows)
    assert target.space == "columns"
    assert target.is_exact
    answer = target.predict(matrix)
    np.testing.assert_array_equal(answer, expected)
    assert answer.dtype == expected.dtype
    assert len(np.unique(answer)) > 10  # the model tells rows apart
    kinds = {"age": "value", "visits": "value", "room no": "value"}
    assert [c.kind for c in target.coordinates] == [kinds.get(c, "code") for c in rows.columns]
    assert target.levels["code"] == ["0", "10", "20", "30"]
    for key, held in containers(rows).items():
        np.testing.assert_array_equal(target.encode(held), matrix, err_msg=key)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_levels_are_matched_by_what_they_say(library):
    """Another order of categories, or plain text, must not be read as other levels."""
    model, rows = native(library, 2)
    expected = model.predict_proba(rows)
    target = target_of(model, background=rows)
    shuffled = rows.assign(
        grade=rows["grade"].cat.reorder_categories(["high", "low", "mid"]),
        job=rows["job"].astype(object),
        code=rows["code"].astype(int),  # what a Parquet file makes of integer categories
    )
    np.testing.assert_array_equal(target.predict(target.encode(shuffled)), expected)
    if library == "xgboost" and not hasattr(model.get_booster(), "get_categories"):
        # up to 3.0 the model does not know what its codes stand for
        with pytest.raises(DataError, match=r"'job' is categorical in the model.*in which order"):
            target_of(model, background=shuffled)
        return
    again = target_of(model, background=shuffled)
    np.testing.assert_array_equal(again.predict(again.encode(rows)), expected)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_unseen_levels_are_named_and_not_scored(library):
    model, rows = native(library, 2)
    target = target_of(model, background=rows)
    strange = rows.astype({"job": object, "code": int}).head(6)
    strange.loc[[1, 4], "job"] = "new"
    strange.loc[2, "code"] = 77
    with pytest.raises(DataError) as caught:
        target.encode(strange)
    assert "column 'job' has levels the model does not know: 'new' (2 rows)" in str(caught.value)
    assert "column 'code' has levels the model does not know: '77' (1 row)" in str(caught.value)
    unseen = target.unseen(strange)
    assert unseen.levels == {"job": {"new": 2}, "code": {"77": 1}}
    assert np.flatnonzero(unseen.mask.any(axis=1)).tolist() == [1, 2, 4]
    marked = target.encode(strange, unseen="mark")
    assert (marked == UNSEEN).sum() == 3
    good = ~unseen.mask.any(axis=1)
    expected = model.predict_proba(rows.head(6)[good])
    np.testing.assert_array_equal(target.predict(marked[good]), expected)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_levels_of_another_kind_are_named(library):
    model, rows = native(library, 2)
    if library == "xgboost" and not hasattr(model.get_booster(), "get_categories"):
        pytest.skip("up to 3.0 the model does not know its levels")
    numbered = rows.assign(job=rows["job"].cat.codes.astype("category"))
    words = "column 'job' holds numbers, but the levels the model knows are text"
    with pytest.raises(DataError, match=words):
        target_of(model, background=numbered)


def test_missing_levels_where_the_model_does_not_take_them():
    model, rows = native("catboost", 2)
    target = target_of(model, background=rows)
    legal = dict(zip(target.columns, target.takes_missing.tolist(), strict=True))
    assert legal == {
        "age": True, "job": False, "grade": False, "code": False, "owner": False, "visits": True,
        "room no": True,
    }  # fmt: skip
    with pytest.raises(DataError, match=r"column 'job' is missing in 1 row \(first: row 2\)"):
        target.encode(rows.assign(job=rows["job"].where(rows.index != 2, None)))


@pytest.mark.parametrize("library", ["xgboost", "lightgbm", "catboost"])
def test_boosters_of_the_libraries_own_interface(library):
    model, rows = native(library, 2)
    expected = model.predict_proba(rows)
    if library == "catboost":
        import catboost

        booster = catboost.CatBoost({"loss_function": "Logloss", "iterations": 4, "verbose": 0})
        booster.set_params(allow_writing_files=False)
        booster.fit(catboost.Pool(rows, CODES, cat_features=["job", "grade", "code"]))
        expected = booster.predict(rows, prediction_type="Probability")
    else:
        booster = model.get_booster() if library == "xgboost" else model.booster_
    target = target_of(booster, background=rows)
    assert target.classes == (0, 1)
    np.testing.assert_array_equal(target.predict(target.encode(rows)), expected)
    if library != "catboost":  # which writes labels into its models
        named = target_of(booster, background=rows, classes=["no", "yes"])
        assert named.classes == ("no", "yes")


def test_categorical_arrays_of_xgboost_and_lightgbm():
    X = np.column_stack([ARRAY[:, 0], RNG.integers(0, 4, N), ARRAY[:, 1]])
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(
        n_estimators=4, feature_types=["q", "c", "q"], enable_categorical=True
    ).fit(X, CODES)
    lightgbm = pytest.importorskip("lightgbm")
    data = lightgbm.Dataset(X, CODES, categorical_feature=[1], params={"verbose": -1})
    booster = lightgbm.train({"objective": "binary", "verbose": -1, "min_data_in_leaf": 5}, data, 4)
    for made, expected in (
        (model, model.predict_proba(X)),
        (booster, np.column_stack([1 - booster.predict(X), booster.predict(X)])),
    ):
        target = target_of(made, background=X)
        assert [c.kind for c in target.coordinates] == ["value", "code", "value"]
        np.testing.assert_array_equal(target.predict(target.encode(X)), expected)


def test_lists_of_levels_are_given_to_the_right_columns():
    """LightGBM lists levels of all pandas categories, constant and ordered ones included."""
    lightgbm = pytest.importorskip("lightgbm")
    rows = pd.DataFrame(
        {
            "always": pd.Categorical(["q"] * N, categories=["p", "q"]),
            "job": NATIVE["job"],
            "size": pd.Categorical(
                RNG.choice(["s", "m", "l"], N), categories=["s", "m", "l"], ordered=True
            ),
            "age": ARRAY[:, 0],
        }
    )
    y = SCORE + rows["size"].cat.codes > SCORE.median() + 1
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, min_child_samples=5).fit(rows, y)
    target = target_of(model, background=rows)
    np.testing.assert_array_equal(target.predict(target.encode(rows)), model.predict_proba(rows))
    assert target.levels == {"always": ["p", "q"], "job": ["x", "y", "z"], "size": ["s", "m", "l"]}
    assert [c.kind for c in target.coordinates] == ["code", "code", "code", "value"]
    other = rows.assign(size=rows["size"].cat.reorder_categories(["m", "l", "s"]))
    np.testing.assert_array_equal(target.encode(other), target.encode(rows))
    with pytest.raises(DataError, match="fitted with 3 columns of pandas categories"):
        target_of(model, background=rows.astype({"size": object}))


def test_categories_of_hist_gradient_boosting():
    rows = pd.DataFrame({"job": NATIVE["job"], "age": ARRAY[:, 0], "visits": MIXED["visits"]})
    for columns in ("from_dtype", ["job", "visits"]):
        model = HistGradientBoostingClassifier(max_iter=5, categorical_features=columns)
        model.fit(rows, TWO)
        target = target_of(model, background=rows)
        expected = model.predict_proba(rows)
        np.testing.assert_array_equal(target.predict(target.encode(rows)), expected)
        assert target.is_exact
        last = "value" if columns == "from_dtype" else "code"
        assert [c.kind for c in target.coordinates] == ["code", "value", last]
        for key, held in containers(rows).items():
            np.testing.assert_array_equal(
                target.predict(target.encode(held)), expected, err_msg=key
            )


def test_gblinear_has_no_inplace_prediction():
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=4, booster="gblinear").fit(ARRAY, CODES)
    target = target_of(model, background=ARRAY)
    assert not target.is_exact
    np.testing.assert_allclose(
        target.predict(target.encode(ARRAY)), model.predict_proba(ARRAY), rtol=1e-6
    )


# ---- Pipelines ----------------------------------------------------------------------------------


@functools.cache
def pipeline(name: str, n_classes: int = 2):
    y = {2: TWO, 3: THREE}[n_classes]
    steps = columns()
    if name == "sparse logistic":
        steps, last = columns(sparse_threshold=1.0), LogisticRegression(max_iter=500)
    elif name == "sparse xgboost":
        xgboost = pytest.importorskip("xgboost")
        steps, last = columns(sparse_threshold=1.0), xgboost.XGBClassifier(n_estimators=5)
        y = np.unique(y, return_inverse=True)[1]
    elif name == "sparse neighbours":
        steps, last = columns(sparse_threshold=1.0), KNeighborsClassifier()
    elif name == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm")
        last = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, min_child_samples=5)
    elif name == "selection":
        last = make_pipeline(SelectKBest(k=5), RandomForestClassifier(5, random_state=0))
    elif name == "components":
        last = make_pipeline(PCA(3), RandomForestClassifier(5, random_state=0))
    elif name == "frames":
        dense = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        steps = columns().set_params(levels=dense).set_output(transform="pandas")
        last = LogisticRegression(max_iter=500)
    elif name == "search":
        model = Pipeline([("p", steps), ("m", LogisticRegression(max_iter=500))])
        return GridSearchCV(model, {"m__C": [0.5, 1]}, cv=2).fit(PLAIN, y)
    elif name == "other encoders":
        filled = make_pipeline(SimpleImputer(strategy="most_frequent"), OrdinalEncoder())
        steps = ColumnTransformer(
            [
                ("bins", KBinsDiscretizer(3, encode="onehot-dense"), ["room no", "visits"]),
                ("target", TargetEncoder(cv=2), ["job", "code"]),
                ("filled", filled, ["grade"]),
                ("first", OneHotEncoder(drop="first"), ["owner"]),
            ],
            remainder="drop",
        )
        last = HistGradientBoostingClassifier(max_iter=5)
    else:
        last = {
            "logistic": LogisticRegression(max_iter=500),
            "forest": RandomForestClassifier(7, random_state=0),
            "hist boosting": HistGradientBoostingClassifier(max_iter=5),
        }[name]
    return Pipeline([("p", steps), ("m", last)]).fit(PLAIN, y)


PIPELINES = [
    "logistic", "forest", "hist boosting", "sparse logistic", "sparse xgboost",
    "sparse neighbours", "lightgbm", "selection", "components", "frames", "search",
    "other encoders",
]  # fmt: skip


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("space", ["transformed", "columns"])
def test_pipelines_answer_as_by_themselves(name, space):
    model = pipeline(name)
    expected = model.predict_proba(PLAIN)
    target = target_of(model, background=PLAIN, space=space)
    matrix = target.encode(PLAIN)
    assert (target.space, matrix.dtype) == (space, target.dtype)
    assert matrix.shape == (N, len(target.coordinates))
    answer = target.predict(matrix)
    if target.is_exact:
        np.testing.assert_array_equal(answer, expected)
    np.testing.assert_allclose(answer, expected, rtol=1e-9, atol=1e-14)
    for key, rows in containers(PLAIN).items():
        np.testing.assert_array_equal(target.encode(rows), matrix, err_msg=key)
    fields = {c.field for c in target.coordinates}
    if "other" not in name and name != "components":
        assert fields <= set(PLAIN.columns)
    if space == "columns":
        assert len(target.coordinates) == len(target.columns)


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("forest", (True, True)),
        ("selection", (True, True)),
        ("components", (True, False)),  # a product of matrices in every call
        ("logistic", (False, False)),
        ("sparse xgboost", (True, True)),
        ("sparse neighbours", (False, False)),
    ],
)
def test_exactness_of_pipelines(name, exact):
    model = pipeline(name)
    found = [
        target_of(model, background=PLAIN, space=s).is_exact for s in ("transformed", "columns")
    ]
    assert tuple(found) == exact


def test_the_default_space_of_a_pipeline_is_what_its_last_step_sees():
    target = target_of(pipeline("forest"), background=PLAIN)
    assert target.space == "transformed"
    assert target.n_trees == 7
    fields = [c.field for c in target.coordinates]
    assert fields[:2] == ["age", "room no"]
    assert fields.count("job") == 3
    assert {c.kind for c in target.coordinates if c.field == "job"} == {"level"}
    assert target.transform(PLAIN).shape == (N, len(fields))
    assert target_of(pipeline("forest"), background=PLAIN, space="columns").transform is None


def test_raw_columns_of_a_pipeline():
    target = target_of(pipeline("forest", 3), background=PLAIN, space="columns")
    assert target.classes == (0, 1, 2)
    assert target.column_kinds == {
        "age": "numeric", "job": "nominal", "grade": "nominal", "code": "nominal",
        "owner": "nominal", "visits": "nominal", "room no": "numeric",
    }  # fmt: skip
    assert target.levels["job"] == ["x", "y", "z"]
    assert any("'visits'" in note and "nominal" in note for note in target.notes)
    missing = dict(zip(target.columns, target.takes_missing.tolist(), strict=True))
    # imputed, unknown to OneHotEncoder and so ignored, refused by OrdinalEncoder
    assert missing == {
        "age": True, "job": True, "grade": True, "code": False, "owner": False, "visits": True,
        "room no": True,
    }  # fmt: skip
    back = target.decode(target.encode(PLAIN))
    for name in ("job", "grade", "code", "owner", "visits"):
        assert back[name].dtype == PLAIN[name].dtype
        assert back[name].tolist() == PLAIN[name].tolist()


@pytest.mark.parametrize(
    "name", ["forest", "sparse logistic", "selection", "frames", "other encoders"]
)
def test_looked_up_levels_give_the_bytes_of_the_steps(name):
    """States an audit makes: any mixture of the columns' values, missing ones where legal."""
    model = pipeline(name)
    target = target_of(model, background=PLAIN, space="columns")
    matrix = target.encode(PLAIN)
    steps = model[:-1]
    codec = target.decode.__self__
    names = list(PLAIN.columns)
    made = Preprocessor(steps, names, codec, target.encode(PLAIN.drop(index=3)))
    assert made.is_fast
    rng = np.random.default_rng(1)
    states = np.stack([rng.choice(column, 300) for column in matrix.T], axis=1)
    states[::5, target.takes_missing] = np.nan
    plain = steps.transform(target.decode(states))
    fast = made(states)
    if hasattr(plain, "toarray"):
        plain, fast = plain.toarray(), fast.toarray()
    assert np.asarray(fast).tobytes() == np.asarray(plain, dtype=np.asarray(fast).dtype).tobytes()
    np.testing.assert_allclose(
        target.predict(states), model.predict_proba(target.decode(states)), rtol=1e-12, atol=1e-15
    )


def test_steps_that_cannot_be_looked_up_run_as_they_are():
    def double(rows):
        return rows.assign(age=2 * rows["age"].fillna(0))[["age"]]

    steps = ColumnTransformer(
        [("own", FunctionTransformer(double), ["age"]), ("levels", OneHotEncoder(), ["job"])]
    )
    relative = FunctionTransformer(lambda rows: rows - rows.mean(axis=0))  # of the whole call
    for extra in (None, relative):
        model = Pipeline([("p", steps), ("r", extra), ("m", LogisticRegression())])
        model.fit(PLAIN, TWO)
        target = target_of(model, background=PLAIN, space="columns")
        np.testing.assert_allclose(
            target.predict(target.encode(PLAIN)), model.predict_proba(PLAIN), rtol=1e-9
        )
        assert not target.is_exact
        assert target.columns == ("age", "job")


def test_columns_the_pipeline_drops_need_not_be_there():
    rows = PLAIN.assign(id=2**60 + np.arange(N), note=[["any"]] * N)
    model = Pipeline([("p", columns()), ("m", RandomForestClassifier(5, random_state=0))])
    model.fit(rows, TWO)
    for space in ("transformed", "columns"):
        target = target_of(model, background=rows, space=space)
        assert target.columns == tuple(PLAIN.columns)
        expected = model.predict_proba(rows)
        np.testing.assert_array_equal(target.predict(target.encode(rows)), expected)
        np.testing.assert_array_equal(target.predict(target.encode(PLAIN)), expected)
        with pytest.raises(DataError, match="does not know: 'extra'"):
            target.encode(rows.assign(extra=1))


def test_a_pipeline_on_arrays():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(ARRAY, TWO)
    for space in ("transformed", "columns"):
        target = target_of(model, background=ARRAY, space=space)
        np.testing.assert_allclose(
            target.predict(target.encode(ARRAY)), model.predict_proba(ARRAY), rtol=1e-12
        )


def test_a_pipeline_given_single_precision_is_asked_with_it():
    single = NUMBERS.astype(np.float32)
    model = make_pipeline(StandardScaler(), KNeighborsClassifier(weights="distance"))
    model.fit(single, TWO)
    target = target_of(model, background=single)
    assert target.dtype == "float32"
    assert target.encode(single).tobytes() == model[:-1].transform(single).tobytes()
    expected = model.predict_proba(single)
    assert (expected != model.predict_proba(single.astype(float))).any()
    np.testing.assert_array_equal(target.predict(target.encode(single)), expected)
    raw = target_of(model, background=single, space="columns")
    np.testing.assert_array_equal(raw.predict(raw.encode(single)), expected)
    assert target_of(model, background=NUMBERS).dtype == "float64"
    by_itself = model[-1].fit(single, TWO)
    target = target_of(by_itself, background=single)
    assert target.dtype == "float32"
    np.testing.assert_array_equal(
        target.predict(target.encode(single)), by_itself.predict_proba(single)
    )


def test_unseen_levels_of_a_pipeline():
    strange = PLAIN.assign(job=PLAIN["job"].where(PLAIN.index != 4, "new"))
    model = pipeline("forest")
    target = target_of(model, background=PLAIN)
    # in the transformed space the Pipeline's own rule holds (here: no level is on) ...
    np.testing.assert_array_equal(
        target.predict(target.encode(strange)), model.predict_proba(strange)
    )
    assert target.unseen(strange).levels == {"job": {"new": 1}}
    # ... in raw columns such a row is not scored
    target = target_of(model, background=PLAIN, space="columns")
    with pytest.raises(DataError, match=r"'job' has levels the model does not know: 'new'"):
        target.encode(strange)


def test_levels_a_small_background_lacks_are_known_to_the_encoder():
    target = target_of(pipeline("forest"), background=PLAIN[PLAIN["job"] == "x"], space="columns")
    assert target.levels["job"] == ["x", "y", "z"]
    np.testing.assert_array_equal(
        target.predict(target.encode(PLAIN)), pipeline("forest").predict_proba(PLAIN)
    )


def test_a_model_that_wraps_a_pipeline_is_asked_with_frames():
    model = CalibratedClassifierCV(
        Pipeline([("p", columns()), ("m", LogisticRegression(max_iter=500))]), cv=2
    ).fit(PLAIN, TWO)
    target = target_of(model, background=PLAIN)
    assert (target.space, target.kind) == ("columns", "sklearn")
    np.testing.assert_allclose(
        target.predict(target.encode(PLAIN)), model.predict_proba(PLAIN), rtol=1e-12
    )


# ---- functions, networks, own families ----------------------------------------------------------


def by_age(age, job) -> np.ndarray:
    p = 1 / (1 + np.exp(-np.asarray(age, dtype=float) - (np.asarray(job, dtype=object) == "x")))
    return np.column_stack([1 - p, p])


@pytest.mark.parametrize("container", ["pandas", "arrow", "polars", "objects"])
def test_functions_get_the_container_they_were_audited_with(container):
    rows = MIXED[["age", "job"]].drop(index=3).reset_index(drop=True)
    expected = by_age(rows["age"], rows["job"])
    seen = []

    def predict(given):
        seen.append(type(given))
        if container == "objects":
            return by_age(given[:, 0], given[:, 1])
        return by_age(
            *(
                np.array(given[name].to_pylist() if container == "arrow" else given[name])
                for name in ("age", "job")
            )
        )

    if container == "polars":
        polars = pytest.importorskip("polars")
        held = polars.from_pandas(rows)
    else:
        held = {
            "pandas": rows,
            "arrow": pa.Table.from_pandas(rows),
            "objects": rows.to_numpy(dtype=object),
        }[container]
    target = target_of(predict, background=held, classes=["no", "yes"])
    assert (target.kind, target.space, target.is_exact) == ("callable", "columns", False)
    assert target.model_hash is None
    np.testing.assert_array_equal(target.predict(target.encode(held)), expected)
    assert set(seen) == {type(held)}
    if container != "objects":
        np.testing.assert_array_equal(target.predict(target.encode(rows)), expected)


def test_functions_on_arrays_get_arrays_of_their_precision():
    seen = set()

    def predict(given):
        seen.add((type(given), given.dtype.name))
        return by_age(given[:, 0], given[:, 1])

    target = target_of(predict, background=ARRAY)
    assert (target.space, target.dtype, target.classes) == ("matrix", "float64", (0, 1))
    assert target_of(predict, background=ARRAY.astype(np.float32)).dtype == "float32"
    assert seen == {(np.ndarray, "float64"), (np.ndarray, "float32")}
    assert target_of(predict, background=None, rows=ARRAY).columns == ("x0", "x1", "x2", "x3")
    with pytest.raises(DataError, match="cannot be known without rows"):
        target_of(predict, background=None)


def test_functions_on_truth_values_get_truth_values():
    truth = ARRAY > 0

    def predict(given):
        assert given.dtype == bool
        return by_age(given[:, 0], given[:, 1])

    target = target_of(predict, background=truth)
    np.testing.assert_array_equal(target.predict(target.encode(truth)), predict(truth))
    assert {c.kind for c in target.coordinates} == {"code"}
    assert not target.takes_missing.any()


def test_a_method_of_a_model_knows_its_labels():
    model = fitted("logistic", 2, True)
    target = target_of(model.predict_proba, background=NUMBERS)
    assert (target.kind, target.classes) == ("callable", ("no", "yes"))
    with pytest.raises(ModelError, match=r"\['yes', 'no'\] are not the model's labels"):
        target_of(model.predict_proba, background=NUMBERS, classes=["yes", "no"])


@pytest.mark.parametrize("output", ["logits", "probabilities", "logit"])
def test_torch_modules(output):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    width = 1 if output == "logit" else 3
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, width)
    )
    if output == "probabilities":
        module.append(torch.nn.Softmax(dim=1))
    module.train()
    target = target_of(module, background=ARRAY, output=output)
    matrix = target.encode(ARRAY)
    answer = target.predict(matrix)
    assert module.training  # put back as it was
    assert module[2].training
    with torch.no_grad():
        raw = module.eval()(torch.from_numpy(ARRAY.astype(np.float32))).numpy().astype(np.float64)
    if output == "logits":
        powers = np.exp(raw)
        expected = powers / powers.sum(axis=1, keepdims=True)
    elif output == "logit":
        expected = np.column_stack([1 / (1 + np.exp(raw)), 1 / (1 + np.exp(-raw))])
    else:
        expected = raw
    np.testing.assert_allclose(answer, expected, rtol=2e-6)
    assert (target.kind, target.dtype, target.is_exact) == ("torch", "float32", False)
    assert not target.takes_missing.any()
    # blocks of one height: the same row, alone and among others
    np.testing.assert_array_equal(target.predict(matrix[:1]), answer[:1])
    double = target_of(module.double(), background=NUMBERS, output=output)
    assert (double.dtype, double.columns) == ("float64", ("a", "b", "c", "d"))


def test_torch_modules_need_a_declared_output():
    torch = pytest.importorskip("torch")
    with pytest.raises(ModelError, match="needs output= one of logits, probabilities, logit"):
        target_of(torch.nn.Linear(4, 2), background=ARRAY)
    with pytest.raises(ModelError, match="'logit' means one number a row"):
        target_of(torch.nn.Linear(4, 2), background=ARRAY, output="logit")
    with pytest.raises(ModelError, match=r"for one number a row say output='logit'"):
        target_of(torch.nn.Linear(4, 1), background=ARRAY, output="logits")
    with pytest.raises(ModelError, match=r"negative probabilities|do not sum to 1"):
        target_of(torch.nn.Linear(4, 2), background=ARRAY, output="probabilities")
    with pytest.raises(ModelError, match="output='logits' is for torch modules"):
        target_of(fitted("logistic", 2, True), background=NUMBERS, output="logits")
    with pytest.raises(DataError, match="there are 4 columns, but the model was fitted on 3"):
        target_of(torch.nn.Linear(3, 2), background=ARRAY, output="logits")


@pytest.mark.parametrize("family", ["lr", "rf", "xgboost", "mlp"])
def test_families_of_the_package(family):
    X = ARRAY.astype(np.float32)
    data = TrainingData(X, CODES, X, CODES, 2, [np.arange(4)], X.mean(axis=0))
    try:
        small = {"rf": {"n_estimators": 6}, "mlp": {"max_epochs": 2, "width": 8}}.get(family, {})
        model = get_family(family).fit(data, small, seed=0)
    except ConfigError:
        pytest.skip(f"needs the library of {family}")
    target = target_of(model, background=NUMBERS, classes=["no", "yes"])
    matrix = target.encode(NUMBERS)
    np.testing.assert_array_equal(target.predict(matrix), model.predict_proba(matrix))
    assert (target.kind, target.dtype, target.classes) == ("cfc", "float32", ("no", "yes"))
    assert target.n_trees == (6 if family == "rf" else None)
    assert target.is_exact == (family in ("rf", "xgboost"))
    assert len(target.model_hash) == 64


def test_no_library_is_loaded_before_a_model_of_its_comes(repository):
    script = """
import sys
import cfc.auditing.targets
print([n for n in ("sklearn", "torch", "xgboost", "lightgbm", "catboost", "polars", "skops")
       if n in sys.modules])
"""
    answer = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(repository / "src")},
    )
    assert answer.stdout.strip() == "[]"


# ---- what is refused ----------------------------------------------------------------------------


def refused(model, words, error=ModelError, background=NUMBERS, **options):
    with pytest.raises(error, match=words):
        target_of(model, background=background, **options)


def test_models_that_are_not_fitted_are_named():
    refused(LogisticRegression(), "LogisticRegression is not fitted")
    refused(Pipeline([("p", columns()), ("m", LogisticRegression())]), "not fitted")
    half = Pipeline([("p", StandardScaler().fit(ARRAY)), ("m", LogisticRegression())])
    refused(half, "step 'm'.* is not fitted")
    for name, model in boosters().items():
        refused(model, "not fitted|need to call fit", background=ARRAY), name


def test_models_without_class_probabilities_are_refused_with_a_way_out():
    refused(LinearSVC().fit(NUMBERS, TWO), "LinearSVC has no predict_proba; calibrate it first")
    refused(RidgeClassifier().fit(NUMBERS, TWO), "calibrate it first")
    refused(SVC().fit(NUMBERS, TWO), "without probabilities.*CalibratedClassifierCV")
    refused(LinearRegression().fit(NUMBERS, CODES), "LinearRegression is a regressor")
    refused(StandardScaler().fit(NUMBERS), "StandardScaler is no classifier")
    regressor = Pipeline([("s", StandardScaler()), ("m", LinearRegression())])
    refused(regressor.fit(NUMBERS, CODES), "is a regressor")
    refused("model.pkl", "'model.pkl' is no model.*load_model_file")
    refused(3, "a int is no model")


def test_boosters_with_other_objectives_are_refused():
    xgboost = pytest.importorskip("xgboost")
    lightgbm = pytest.importorskip("lightgbm")
    catboost = pytest.importorskip("catboost")
    refused(xgboost.XGBRegressor(n_estimators=2).fit(NUMBERS, CODES), "is no classifier")
    matrix = xgboost.DMatrix(ARRAY, THREE)
    softmax = xgboost.train({"objective": "multi:softmax", "num_class": 3}, matrix, 2)
    refused(softmax, "'multi:softmax' does not give .*train with multi:softprob")
    several = xgboost.XGBClassifier(n_estimators=2).fit(
        NUMBERS, np.column_stack([CODES, 1 - CODES])
    )
    refused(several, "several targets")
    refused(lightgbm.LGBMRegressor(n_estimators=2, verbose=-1).fit(NUMBERS, CODES), "no classifier")
    data = lightgbm.Dataset(ARRAY, THREE, params={"verbose": -1})
    settings = {"objective": "multiclassova", "num_class": 3, "verbose": -1}
    refused(lightgbm.train(settings, data, 2), "'multiclassova' does not give", background=ARRAY)
    quiet = {"iterations": 2, "verbose": 0, "allow_writing_files": False}
    refused(catboost.CatBoostRegressor(**quiet).fit(NUMBERS, CODES), "loss 'RMSE'")
    ova = catboost.CatBoostClassifier(loss_function="MultiClassOneVsAll", **quiet)
    refused(ova.fit(NUMBERS, THREE), "'MultiClassOneVsAll' does not give")
    words = pd.DataFrame({"a": ARRAY[:, 0], "said": ["some words"] * 60 + ["other words"] * 60})
    text = catboost.CatBoostClassifier(text_features=["said"], **quiet).fit(words, CODES)
    refused(text, r"text features \('said'\)", background=words)


def test_one_class_and_several_outputs_are_refused():
    refused(DummyClassifier().fit(NUMBERS, ["no"] * N), r"knows one class only, \('no',\)")
    two = np.column_stack([TWO, TWO[::-1]])
    refused(RandomForestClassifier(3).fit(NUMBERS, two), "several outputs")
    refused(MultiOutputClassifier(GaussianNB()).fit(NUMBERS, two), "several outputs")


def test_classes_must_be_the_models_in_its_order():
    model = fitted("logistic", 2, True)
    assert target_of(model, background=NUMBERS, classes=["no", "yes"]).classes == ("no", "yes")
    refused(
        model, r"\['yes', 'no'\] are not .* in its order, \['no', 'yes'\]", classes=["yes", "no"]
    )
    refused(model, "must be 2 different labels", classes=["no", "yes", "maybe"])
    refused(model, "must be 2 different labels", classes=["no", "no"])
    three = fitted("forest", 3, True)
    assert target_of(three, background=NUMBERS, classes=np.arange(3)).classes == (0, 1, 2)
    refused(three, "are not the model's labels", classes=["0", "1", "2"])
    refused(fitted("xgboost", 3, True), "are not the model's labels", classes=[2, 1, 0])
    by_name = target_of(fitted("xgboost", 3, True), background=NUMBERS, classes=["a", "b", "c"])
    assert by_name.classes == ("a", "b", "c")
    truth = GaussianNB().fit(NUMBERS, CODES.astype(bool))
    given = target_of(truth, background=NUMBERS, classes=[0, 1])
    assert given.classes[1] is True


def test_labels_keep_their_type():
    for y, kind in (
        (CODES.astype(bool), bool), (CODES, int), (CODES + 0.5, float), (TWO, str),
    ):  # fmt: skip
        y = y if kind is not float else (CODES * 2.0)
        classes = target_of(GaussianNB().fit(NUMBERS, y), background=NUMBERS).classes
        assert {type(c) for c in classes} == {kind}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda p: p[:, 1], r"float64 of shape \(120,\), expected .*second class only"),
        (lambda p: p[:, 1:], r"shape \(120, 1\)"),
        (lambda p: p[:-1], r"shape \(119, 2\)"),
        (lambda p: p * 2, r"do not sum to 1, first in row 0"),
        (lambda p: p + np.array([[0.0, 0.002]]), r"sum to 1.002"),
        (lambda p: np.log(p), "negative probabilities, first in row 0"),
        (lambda p: np.where(np.arange(120)[:, None] == 7, np.nan, p), "NaN, first in row 7"),
        (lambda p: p.astype(str), "of shape"),
        (lambda p: {}, "of shape"),
    ],
)
def test_answers_that_are_no_probabilities_are_refused(answer, words):
    refused(lambda rows: answer(by_age(rows["a"], rows["b"])), words)


def test_a_model_that_raises_says_so():
    def broken(rows):
        raise KeyError("no such table")

    refused(broken, "fails on rows of the background: .*no such table")


def test_backgrounds_that_do_not_fit_are_named():
    model = fitted("forest", 2, True)
    refused(model, "column 'b' is missing", DataError, NUMBERS.drop(columns="b"))
    refused(model, "does not know: 'e'", DataError, NUMBERS.assign(e=1))
    refused(model, "column 'a' holds text", DataError, NUMBERS.assign(a="u"))
    refused(model, "more than once: 'a'", DataError, NUMBERS.set_axis(list("abca"), axis=1))
    refused(model, "there is no row", DataError, NUMBERS.head(0))
    refused(model, "index is not unique", DataError, NUMBERS.set_axis([0] * N, axis=0))
    refused(model, "has 3 columns, expected 4", DataError, ARRAY[:, :3])
    refused(fitted("forest", 2, False), "there are 3 columns.*fitted on 4", DataError, ARRAY[:, :3])
    refused(pipeline("forest"), "column 'job' is missing", DataError, PLAIN.drop(columns="job"))
    refused(pipeline("forest"), "give background=", DataError, None)
    refused(
        pipeline("forest"),
        "steps fail on rows of the background",
        ModelError,
        PLAIN.assign(age="old"),
    )
    extra = target_of(model, background=NUMBERS.assign(e=1), ignore_extra=True)
    assert extra.columns == ("a", "b", "c", "d")
    assert extra.encode(NUMBERS.assign(e=1, f="u")).shape == (N, 4)


def test_rows_that_do_not_fit_are_named_all_at_once():
    target = target_of(pipeline("forest"), background=PLAIN, space="columns")
    rows = PLAIN.drop(columns="grade").astype({"age": object, "job": object})
    rows = rows.assign(extra=1, owner=[*["yes"] * (N - 1), True], **{"room no": "u"})
    rows.loc[2, "job"] = 5
    with pytest.raises(DataError) as caught:
        target.encode(rows)
    for part in (
        "X: 5 problems",
        "column 'grade' is missing",
        "does not know: 'extra'",
        "column 'job' holds mixed types: str ('x', row 0), int (5, row 2)"
        if PLAIN["job"][0] == "x"
        else "column 'job' holds mixed types",
        "column 'owner' holds mixed types: str ('yes', row 0), bool (True, row 119)",
        "column 'room no' holds text (first: 'u', row 0) where the model saw numbers",
    ):
        assert part in str(caught.value)
    assert target.encode(PLAIN.iloc[[4]]).shape == (1, 7)
    with pytest.raises(DataError, match="there is no row"):
        target.encode(PLAIN.head(0))


def test_infinite_numbers_are_named_in_every_space():
    high = PLAIN.assign(visits=PLAIN["visits"].astype(float))
    high.loc[7, "room no"] = np.inf
    target = target_of(pipeline("forest"), background=PLAIN, space="columns")
    with pytest.raises(DataError, match="column 'room no' is infinite in 1 row, first in row 7"):
        target.encode(high)
    tall = make_pipeline(FunctionTransformer(np.exp), GaussianNB()).fit(ARRAY, TWO)
    target = target_of(tall, background=ARRAY)
    with pytest.raises(DataError, match=r"column 'x2' gives infinity in 1 row \(first: row 5\)"):
        target.encode(np.where(np.arange(N * 4).reshape(N, 4) == 22, 1e4, ARRAY))


def test_spaces_are_checked():
    refused(pipeline("forest"), "space='column' is unknown; .*columns", ConfigError, space="column")
    refused(fitted("forest", 2, True), "is for a Pipeline", ConfigError, space="transformed")
    target = target_of(fitted("forest", 2, True), background=NUMBERS, space="columns")
    assert target.space == "columns"


# ---- repeat probe -------------------------------------------------------------------------------


def test_a_model_that_draws_lots_is_found():
    rng = np.random.default_rng(0)

    def moody(rows):
        p = np.clip(by_age(rows[:, 0], rows[:, 1])[:, 1] + rng.normal(0, 0.01, len(rows)), 0, 1)
        return np.column_stack([1 - p, p])

    found = probe(target_of(moody, background=ARRAY), ARRAY)
    assert found.verdict == "stochastic"
    assert 0.001 < found.repeat_difference < 0.2
    assert "changes its answer between calls" in str(found)
    torch = pytest.importorskip("torch")
    always = torch.nn.Sequential(torch.nn.Linear(4, 2), AlwaysDropout())
    found = probe(target_of(always, background=ARRAY, output="logits"), ARRAY)
    assert found.verdict == "stochastic"


def AlwaysDropout():
    import torch

    class Layer(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.dropout(x, 0.5, training=True)

    return Layer()


def test_a_model_whose_answers_follow_the_batch_is_found():
    def relative(rows):
        p = 1 / (1 + np.exp(-(rows[:, 0] - rows[:, 0].mean())))
        return np.column_stack([1 - p, p])

    found = probe(target_of(relative, background=ARRAY), ARRAY)
    assert found.verdict == "batch-dependent"
    assert found.repeat_difference == 0
    assert found.batch_difference > 0.001
    assert "batches of other sizes" in str(found)


def test_a_steady_model_is_exact():
    target = target_of(fitted("forest", 2, True), background=NUMBERS)
    found = probe(target, NUMBERS)
    assert (found.verdict, found.repeat_difference, found.batch_difference) == ("exact", 0, 0)
    assert found.rows == 64
    assert probe(target, target.encode(NUMBERS)[:5]).rows == 5


def test_a_model_whose_answers_follow_the_batch_is_found_with_one_row():
    def crowded(rows):
        p = np.full(len(rows), 1 / (1 + len(rows)))
        return np.column_stack([1 - p, p])

    target = target_of(crowded, background=ARRAY)
    found = probe(target, ARRAY[:1])
    assert (found.verdict, found.rows) == ("batch-dependent", 1)
    assert found.batch_difference == pytest.approx(1 / 2 - 1 / 3)


def test_a_column_without_any_present_cell():
    empty = MIXED[["age", "job"]].assign(void=None, gap=np.nan)
    target = target_of(
        lambda rows: by_age(rows["age"], rows["job"]), background=empty.drop(index=3)
    )
    assert target.column_kinds["gap"] == "numeric"
    assert target.column_kinds["void"] == "nominal"
    answer = target.predict(target.encode(empty.drop(index=3)))
    np.testing.assert_array_equal(answer, by_age(*(empty.drop(index=3)[c] for c in ("age", "job"))))
