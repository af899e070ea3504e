"""Which raw column each coordinate comes from, against the transformers themselves.

The truth is found by brute force: every raw column is set, in every row, to every value it has
anywhere, and the outputs that change depend on it.
"""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_selector, make_column_transformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import RFE, SelectFromModel, SelectKBest, VarianceThreshold
from sklearn.impute import IterativeImputer, KNNImputer, MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)

from cfc.auditing.tracing import Output, check_fitted, split_pipeline, trace, transform_dense
from cfc.baselines import Coordinate
from cfc.errors import DataError, GroupError, ModelError

VERSION = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
NUMBERS = ["age", "pay", "debt", "rank"]
WORDS = ["job", "town", "job_x"]
COLUMNS = [*NUMBERS, *WORDS, "owner"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """60 rows: numbers, one with gaps, codes, words of uneven frequency, one with gaps, a 0/1."""
    rng = np.random.default_rng(7)
    n = 60
    pay = rng.normal(3, 1, n)
    pay[rng.random(n) < 0.2] = np.nan
    town = rng.choice(["ash", "elm", "oak", "yew"], n, p=[0.5, 0.3, 0.15, 0.05]).astype(object)
    town[rng.random(n) < 0.15] = np.nan
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n).astype(float),
            "pay": pay,
            "debt": rng.gamma(2.0, 1.0, n) + 0.1,
            "rank": rng.integers(0, 5, n),
            # "job" = "x_y" and "job_x" = "y" both print as job_x_y
            "job": rng.choice(["a", "b", "c", "x_y", "z"], n, p=[0.4, 0.3, 0.2, 0.06, 0.04]),
            "town": town,
            "job_x": rng.choice(["y", "n"], n),
            "owner": rng.integers(0, 2, n),
        }
    ).astype({"job": object, "job_x": object})


@pytest.fixture(scope="module")
def labels(frame) -> np.ndarray:
    rng = np.random.default_rng(8)
    return rng.integers(0, 3, len(frame)) + 10 * (frame["age"] > 50).to_numpy()


def matrix_of(transformer, rows) -> np.ndarray:
    result = transformer.transform(rows)
    result = result.toarray() if sparse.issparse(result) else np.asarray(result)
    return result.astype(float)


@pytest.mark.filterwarnings("ignore")
def brute_force(transformer, rows: pd.DataFrame) -> list[set[str]]:
    """Return, for each output, the columns whose values change it in some row."""
    found: list[set[str]] = [set() for _ in range(matrix_of(transformer, rows).shape[1])]
    for name in rows.columns:
        firsts = rows.drop_duplicates(name).index
        before = pd.concat([rows] * len(firsts), ignore_index=True)
        after = before.copy()
        after[name] = rows[name].take(np.repeat(firsts, len(rows))).to_numpy()
        x, y = matrix_of(transformer, before), matrix_of(transformer, after)
        for i in np.flatnonzero(~((x == y) | (np.isnan(x) & np.isnan(y))).all(axis=0)):
            found[i].add(name)
    return found


def assert_traced(transformer, rows, sample=None):
    traced = trace(transformer, rows.columns, sample)
    expected = brute_force(transformer, rows)
    assert [set(o.columns) for o in traced.outputs] == expected
    assert all(
        list(o.columns) == [c for c in rows.columns if c in o.columns] for o in traced.outputs
    )
    return traced


# --- one-hot encoders: every option, and what each level stands for ---

DROPS = {"none": None, "first": "first", "if_binary": "if_binary", "array": "most frequent"}
RARE = {
    "all": {},
    "count": {"min_frequency": 10},
    "share": {"min_frequency": 0.2},
    "most": {"max_categories": 3},
    "most_two": {"max_categories": 2},
    "both": {"min_frequency": 6, "max_categories": 4},
    "one": {"max_categories": 1},
}
UNKNOWN = ["error", "ignore", "infrequent_if_exist", *(["warn"] if VERSION >= (1, 6) else [])]


def levels_by_asking(encoder, rows) -> list[tuple[str, str, bool]]:
    """Return column, text and "is missing" of each output, from which values switch it on."""
    described = {}
    for name in rows.columns:
        values = sorted(rows[name].dropna().unique()) + [np.nan] * int(rows[name].isna().any())
        answers = []
        for value in values:
            changed = rows.head(1).copy()
            changed[name] = np.array([value], dtype=object)
            answers.append(matrix_of(encoder, changed)[0])
        answers = np.array(answers)
        for i in np.flatnonzero((answers != answers[0]).any(axis=0)):
            on = [v for v, a in zip(values, answers[:, i], strict=True) if a]
            texts = ["missing" if pd.isna(v) else v for v in on]
            # only the bucket holds more than one value, and a bucket is always the last output
            bucket = [*texts[:3], f"{len(texts) - 3} more"] if len(texts) > 4 else texts
            described[int(i)] = (
                name,
                texts[0] if len(on) == 1 else f"infrequent ({', '.join(bucket)})",
                pd.isna(on[0]) and len(on) == 1,
            )
    return [described[i] for i in sorted(described)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("unknown", UNKNOWN)
@pytest.mark.parametrize(
    # what is in the bucket cannot be dropped: scikit-learn refuses to fit the pair left out
    ("drop", "rare"),
    [pair for pair in itertools.product(DROPS, RARE) if pair != ("array", "one")],
)
def test_every_option_of_the_one_hot_encoder(frame, drop, rare, unknown):
    rows = frame[WORDS]
    modes = [rows[name].mode().iloc[-1] for name in WORDS]  # of a tie the first counts as rarer
    encoder = OneHotEncoder(
        drop=modes if drop == "array" else DROPS[drop],
        handle_unknown=unknown,
        sparse_output=unknown != "ignore",
        dtype=np.float32 if rare == "count" else np.float64,
        **RARE[rare],
    )
    encoder.fit(rows)
    traced = trace(encoder, WORDS)
    expected = brute_force(encoder, rows)
    # an output that is always on, as all levels are in one bucket, still is its column's
    assert all(len(o.columns) == 1 for o in traced.outputs)
    for output, truth in zip(traced.outputs, expected, strict=True):
        assert truth in ({output.columns[0]}, set())
    found = [
        (o.columns[0], re.sub(r"^infrequent \((\w+)\)$", r"\1", o.level), o.is_missing)
        for o, truth in zip(traced.outputs, expected, strict=True)
        if truth
    ]
    assert found == levels_by_asking(encoder, rows)
    assert {o.kind for o in traced.outputs} <= {"level"}
    if rare != "one":
        assert all(expected)


def texts(encoder, values) -> list[tuple[str, bool]]:
    column = np.array(values, dtype=object)[:, None]
    return [(o.level, o.is_missing) for o in trace(encoder.fit(column), ["c"]).outputs]


ABC = ["a"] * 6 + ["b"] * 5 + ["c"] * 2 + ["d"]


@pytest.mark.parametrize(
    ("options", "values", "expected"),
    [
        ({}, ABC, ["a", "b", "c", "d"]),
        ({"drop": "first"}, ABC, ["b", "c", "d"]),
        ({"min_frequency": 3}, ABC, ["a", "b", "infrequent (c, d)"]),
        # the first level after grouping goes, here the first frequent one
        ({"min_frequency": 3, "drop": "first"}, ABC, ["b", "infrequent (c, d)"]),
        ({"min_frequency": 3, "drop": "first"}, ["A", *ABC], ["b", "infrequent (A, c, d)"]),
        ({"min_frequency": 3, "drop": ["b"]}, ABC, ["a", "infrequent (c, d)"]),
        # two outputs after grouping make it binary
        ({"min_frequency": 6, "drop": "if_binary"}, ABC, ["infrequent (b, c, d)"]),
        ({"max_categories": 1}, ABC, ["infrequent (a, b, c, d)"]),
        ({"max_categories": 1, "drop": "first"}, ABC, []),
        ({"max_categories": 1}, [*ABC, "e"], ["infrequent (a, b, c, 2 more)"]),
        ({"max_categories": 3}, ABC, ["a", "b", "infrequent (c, d)"]),
        # as many levels as allowed: scikit-learn still puts the rarest in a bucket of its own
        ({"max_categories": 4}, ABC, ["a", "b", "c", "infrequent (d)"]),
        ({"categories": [["d", "c", "b", "a"]]}, ABC, ["d", "c", "b", "a"]),
        ({"drop": "if_binary"}, ["x", "x"], ["x"]),
        ({"drop": "if_binary"}, ["x", "y"], ["y"]),
    ],
)
def test_level_texts_by_hand(options, values, expected):
    assert texts(OneHotEncoder(**options), values) == [(text, False) for text in expected]


def test_missing_levels():
    nan = float("nan")
    assert texts(OneHotEncoder(), ["a", nan]) == [("a", False), ("missing", True)]
    assert texts(OneHotEncoder(), ["a", None]) == [("a", False), ("missing", True)]
    assert texts(OneHotEncoder(), ["a", None, nan]) == [
        ("a", False),
        ("missing (None)", True),
        ("missing (nan)", True),
    ]
    assert texts(OneHotEncoder(drop=[nan]), ["a", "b", nan]) == [("a", False), ("b", False)]
    assert texts(OneHotEncoder(drop=[None]), ["a", "b", None]) == [("a", False), ("b", False)]
    assert texts(OneHotEncoder(min_frequency=2), ["a", "a", nan]) == [
        ("a", False),
        ("infrequent (missing)", True),
    ]
    assert texts(OneHotEncoder(min_frequency=2), ["a", "a", None, nan, "b"]) == [
        ("a", False),
        ("infrequent (b, missing (None), missing (nan))", False),
    ]


def test_texts_of_numbers_as_levels():
    column = np.array([[1.0], [2.5], [1e9 + 1], [np.nan]])
    outputs = trace(OneHotEncoder().fit(column), ["c"]).outputs
    assert [o.level for o in outputs] == ["1", "2.5", "1000000001", "missing"]
    assert [o.level for o in trace(OneHotEncoder().fit([[3], [1]]), ["c"]).outputs] == ["1", "3"]
    booleans = pd.DataFrame({"c": [True, False]})
    assert [o.level for o in trace(OneHotEncoder().fit(booleans), ["c"]).outputs] == [
        "False",
        "True",
    ]
    days = pd.DataFrame({"c": pd.to_datetime(["2020-01-02", "2021-03-04"])})
    levels = [o.level for o in trace(OneHotEncoder().fit(days), ["c"]).outputs]
    assert [level[:10] for level in levels] == ["2020-01-02", "2021-03-04"]


# --- transformers of known structure ---

FULL = ["age", "debt", "rank", "owner"]  # no gaps
STRUCTURED = {
    "standard": (FULL, StandardScaler()),
    "minmax": (FULL, MinMaxScaler(feature_range=(-1, 1))),
    "maxabs": (NUMBERS, MaxAbsScaler()),
    "robust": (NUMBERS, RobustScaler()),
    "power": (FULL, PowerTransformer()),
    "boxcox": (["debt", "age"], PowerTransformer(method="box-cox")),
    "quantile": (NUMBERS, QuantileTransformer(n_quantiles=20)),
    "binarizer": (["debt", "rank", "owner"], Binarizer(threshold=0.9)),
    "normalizer": (["age", "debt", "rank"], Normalizer()),
    "normalizer_max": (["age", "debt", "rank"], Normalizer(norm="l1")),
    "ordinal": (WORDS, OrdinalEncoder()),
    "ordinal_rare": (WORDS, OrdinalEncoder(min_frequency=10, encoded_missing_value=-2)),
    "ordinal_unknown": (
        WORDS,
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, max_categories=3),
    ),
    "bins": (["age", "debt", "rank"], KBinsDiscretizer(4)),
    "bins_dense": (["age", "debt"], KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform")),
    "bins_ordinal": (["age", "debt"], KBinsDiscretizer(5, encode="ordinal", strategy="kmeans")),
    "splines": (["age", "debt"], SplineTransformer()),
    "splines_no_bias": (
        ["age", "debt", "rank"],
        SplineTransformer(n_knots=4, degree=2, include_bias=False, extrapolation="linear"),
    ),
    "splines_periodic": (["debt", "age"], SplineTransformer(extrapolation="periodic")),
    "mean": (NUMBERS, SimpleImputer()),
    "median_indicator": (NUMBERS, SimpleImputer(strategy="median", add_indicator=True)),
    "most_frequent": (
        WORDS,
        make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
    ),
    "constant": (
        WORDS,
        make_pipeline(
            SimpleImputer(strategy="constant", fill_value="?", add_indicator=True),
            OneHotEncoder(handle_unknown="ignore"),
        ),
    ),
    "indicator": (NUMBERS, MissingIndicator()),
    "indicator_all": (["pay"], MissingIndicator(features="all")),
    "function_none": (["age", "rank"], FunctionTransformer()),
    "polynomials": (["age", "debt", "rank"], PolynomialFeatures(2)),
    "interactions": (
        ["age", "debt", "rank"],
        PolynomialFeatures(3, interaction_only=True, include_bias=False),
    ),
    "best": (FULL, SelectKBest(k=2)),
    "variance": (FULL, VarianceThreshold(threshold=1.0)),
    "from_model": (FULL, SelectFromModel(RandomForestClassifier(20, random_state=0))),
    "rfe": (FULL, RFE(LogisticRegression(max_iter=50), n_features_to_select=2)),
    "union": (
        ["age", "debt"],
        make_union(StandardScaler(), KBinsDiscretizer(3), make_pipeline(PolynomialFeatures(2))),
    ),
    "union_words": (
        ["age", "debt", "rank"],
        FeatureUnion(
            [("drop", "drop"), ("pass", "passthrough"), ("bins", KBinsDiscretizer(3))],
            transformer_weights={"pass": 2.0},
        ),
    ),
    "pipeline": (
        NUMBERS,
        make_pipeline(
            SimpleImputer(add_indicator=True),
            "passthrough",
            None,
            StandardScaler(),
            SelectKBest(k=4),
            PolynomialFeatures(2),
        ),
    ),
    "selected_levels": (
        ["job", "job_x"],
        make_pipeline(OneHotEncoder(), SelectKBest(k=4), StandardScaler(with_mean=False)),
    ),
}
if VERSION >= (1, 6):
    from sklearn.frozen import FrozenEstimator

    STRUCTURED["frozen"] = (FULL, FrozenEstimator(StandardScaler()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STRUCTURED)
@pytest.mark.parametrize("given", [False, True], ids=["alone", "with_sample"])
def test_known_structure(frame, labels, name, given):
    columns, transformer = STRUCTURED[name]
    rows = frame[columns]
    if name == "frozen":
        transformer.estimator.fit(rows)
    transformer.fit(rows, labels)
    traced = assert_traced(transformer, rows, rows if given else None)
    assert not traced.notes  # nothing had to be probed
    assert len(traced.coordinates()) == matrix_of(transformer, rows).shape[1]


@pytest.mark.filterwarnings("ignore")
def test_target_encoder(frame, labels):
    rows = frame[WORDS]
    binary = TargetEncoder(random_state=0).fit(rows, labels > 5)
    assert assert_traced(binary, rows).outputs == tuple(Output((c,)) for c in WORDS)
    number = TargetEncoder(target_type="continuous").fit(rows, labels)
    assert len(assert_traced(number, rows).outputs) == 3
    several = TargetEncoder(random_state=0).fit(rows, labels)
    classes = len(np.unique(labels))
    assert assert_traced(several, rows).outputs == tuple(
        Output((c,)) for c in WORDS for _ in range(classes)
    )


def test_kinds_by_hand(frame, labels):
    transformer = make_column_transformer(
        (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), ["pay"]),
        (KBinsDiscretizer(3, encode="onehot-dense"), ["age"]),
        (KBinsDiscretizer(3, encode="ordinal"), ["debt"]),
        (Binarizer(threshold=2), ["rank"]),
        (OrdinalEncoder(), ["town"]),
        (make_pipeline(OneHotEncoder(), StandardScaler(with_mean=False)), ["job_x"]),
        (make_pipeline(OneHotEncoder(), MaxAbsScaler()), ["job_x"]),
        ("passthrough", ["owner"]),
    ).fit(frame, labels)
    outputs = trace(transformer, COLUMNS).outputs
    low, high = (
        f"{e:.6g}" for e in transformer.named_transformers_["kbinsdiscretizer-1"].bin_edges_[0][1:3]
    )
    assert outputs == (
        Output(("pay",), "value"),
        Output(("pay",), "code", "missing", True),  # standardised: 0 is no longer "off"
        Output(("age",), "level", f"< {low}"),
        Output(("age",), "level", f"{low} to {high}"),
        Output(("age",), "level", f">= {high}"),
        Output(("debt",), "value"),
        Output(("rank",), "indicator", "> 2"),
        Output(("town",), "code"),
        Output(("job_x",), "code", "n"),
        Output(("job_x",), "code", "y"),
        Output(("job_x",), "level", "n"),  # divided by 1
        Output(("job_x",), "level", "y"),
        Output(("owner",), "value"),
    )
    assert trace(transformer, COLUMNS, nominal=["owner"]).outputs[-1].kind == "code"


def test_polynomials_of_levels(frame):
    rows = frame[["job_x", "age"]]
    prepared = make_column_transformer((OneHotEncoder(), ["job_x"]), remainder="passthrough")
    transformer = make_pipeline(prepared, PolynomialFeatures(2)).fit(rows)
    traced = assert_same_but_for_zeros(transformer, rows)
    n, y, age = Output(("job_x",), "level", "n"), Output(("job_x",), "level", "y"), Output(("age",))
    both = Output(("job_x", "age"))
    assert traced.outputs == (
        *(Output(()), n, y, age),
        *(n, Output(("job_x",), "indicator"), both, y, both, age),
    )
    assert traced.constant == (0,)


def assert_same_but_for_zeros(transformer, rows):
    """The product of two levels of one column is always 0, which structure does not say."""
    traced = trace(transformer, rows.columns)
    matrix = matrix_of(transformer, rows)
    for i, truth in enumerate(brute_force(transformer, rows)):
        if matrix[:, i].any():
            assert set(traced.outputs[i].columns) == truth
        else:
            assert truth == set()
    return traced


# --- columns without any value, and constant ones ---


@pytest.fixture(scope="module")
def gaps() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training rows in which "void" has no value, and rows to ask, in which it has."""
    rng = np.random.default_rng(3)
    fit = pd.DataFrame(rng.normal(size=(40, 4)), columns=["a", "b", "void", "d"])
    for name in ("a", "d"):
        fit.loc[rng.random(40) < 0.3, name] = np.nan
    ask = fit.copy()
    ask["void"] = np.where(rng.random(40) < 0.3, np.nan, rng.normal(size=40))
    fit["void"] = np.nan
    return fit, ask


EMPTY = {
    "mean": SimpleImputer(add_indicator=True),
    "mean_keep": SimpleImputer(keep_empty_features=True, add_indicator=True),
    "frequent": SimpleImputer(strategy="most_frequent"),
    "constant": SimpleImputer(strategy="constant", fill_value=1.0),
    "constant_keep": SimpleImputer(strategy="constant", fill_value=1.0, keep_empty_features=True),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EMPTY)
def test_a_column_without_values_is_dropped_or_kept(gaps, name):
    fit, ask = gaps
    imputer = EMPTY[name].fit(fit)
    traced = trace(imputer, fit.columns)
    assert [set(o.columns) for o in traced.outputs] == brute_force(imputer, ask)
    kept = name.endswith("_keep") or (name == "constant" and VERSION < (1, 8))
    assert traced.unused == (() if kept or "mean" in name else ("void",))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("keep", [False, True])
def test_imputers_that_mix_depend_on_every_column(gaps, keep):
    fit, ask = gaps
    known = {"a", "b", "d"}
    for imputer in (
        KNNImputer(n_neighbors=3, add_indicator=True, keep_empty_features=keep),
        IterativeImputer(add_indicator=True, keep_empty_features=keep, random_state=0),
    ):
        if keep and VERSION < (1, 6) and isinstance(imputer, IterativeImputer):
            continue  # a fault of that version: it fills nothing then
        imputer.fit(fit)
        traced = trace(imputer, fit.columns)
        truth = brute_force(imputer, ask)
        outputs = [set(o.columns) for o in traced.outputs]
        assert len(outputs) == len(truth) == (7 if keep else 6)
        assert all(t <= o for t, o in zip(truth, outputs, strict=True))
        # of the columns with gaps the others are really needed
        assert truth[0] == truth[3 if keep else 2] == known
        indicators = [o for o in traced.outputs if o.kind == "indicator"]
        assert [o.columns for o in indicators] == [("a",), ("void",), ("d",)]
        assert all(o.is_missing and o.level == "missing" for o in indicators)
        assert "fills a gap of one column from the others" in traced.notes[0]
        with pytest.raises(GroupError, match="'a', 'b', 'd' cannot be separate groups"):
            traced.blocks()


@pytest.mark.filterwarnings("ignore")
def test_a_constant_column_in_one_bin_is_constant():
    fit = pd.DataFrame({"a": [1.0, 2, 3, 4], "same": [5.0] * 4})
    for encode in ("onehot", "ordinal"):
        transformer = KBinsDiscretizer(2, encode=encode, strategy="uniform").fit(fit)
        ask = fit.assign(same=[1.0, 5, 9, 20])
        traced = trace(transformer, fit.columns)
        assert [set(o.columns) for o in traced.outputs] == brute_force(transformer, ask)
        assert traced.unused == ("same",)
        assert traced.constant == (len(traced.outputs) - 1,)
        assert traced.coordinates()[-1].field == "(constant)"


# --- ColumnTransformer ---

NUMERIC = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
ENCODER = OneHotEncoder(handle_unknown="ignore")
MASK = [c in ("age", "debt") for c in COLUMNS]
BY = {
    "names": [("n", NUMERIC, ["debt", "age"]), ("w", ENCODER, ["town", "job"])],
    "positions": [("n", NUMERIC, [2, 0]), ("w", ENCODER, [-3, 4])],
    "position_array": [("n", NUMERIC, np.array([1, 3])), ("w", ENCODER, (4,))],
    "slices": [("n", NUMERIC, slice(0, 3)), ("w", ENCODER, slice(-4, -1))],
    "steps": [("n", NUMERIC, slice(0, 4, 2)), ("w", ENCODER, slice(6, 3, -1))],
    "name_slices": [("n", NUMERIC, slice("age", "debt")), ("w", ENCODER, slice("job", "town"))],
    "open_slices": [("n", NUMERIC, slice(None, "debt")), ("w", ENCODER, slice("job_x", None))],
    "mask": [("n", NUMERIC, MASK), ("w", ENCODER, np.array([c == "job" for c in COLUMNS]))],
    "index": [
        ("n", NUMERIC, pd.Index(["pay", "rank"], dtype=object)),
        ("w", ENCODER, pd.Index(["job"], dtype=object)),
    ],
    "callable": [
        ("n", NUMERIC, lambda rows: [c for c in rows.columns if c.startswith("d")]),
        ("w", ENCODER, make_column_selector(dtype_include=object)),
    ],
    "pattern": [("n", NUMERIC, make_column_selector("^(age|pay)$")), ("w", ENCODER, ["job"])],
    "empty": [("e", StandardScaler(), []), ("n", NUMERIC, ["pay"]), ("f", ENCODER, [False] * 8)],
    "one_name": [("t", CountVectorizer(analyzer="char"), "job"), ("n", NUMERIC, ["age"])],
    "one_position": [("t", CountVectorizer(analyzer="char"), 4), ("n", NUMERIC, [0])],
    "twice": [("n", NUMERIC, ["age", "pay"]), ("b", KBinsDiscretizer(3), ["age"])],
    "drop": [
        ("d", "drop", ["age", "job"]),
        ("p", "passthrough", ["debt"]),
        ("w", ENCODER, ["town"]),
    ],
    "pass_first": [("p", "passthrough", ["owner", "rank"]), ("n", NUMERIC, ["age"])],
    "weights": [
        ("n", NUMERIC, ["age"]),
        ("w", ENCODER, ["job"]),
        ("z", KBinsDiscretizer(2), ["debt"]),
    ],
}
BY["nested"] = [
    (
        "both",
        ColumnTransformer(BY["names"], remainder="passthrough"),
        ["job", "rank", "town", "age", "debt"],
    ),
    (
        "w",
        make_pipeline(ColumnTransformer([("w", ENCODER, [1])], remainder=NUMERIC)),
        ["pay", "job_x"],
    ),
]
REMAINDERS = {"drop": "drop", "pass": "passthrough", "estimator": ENCODER}
NEED_WORDS = ("callable", "one_name", "one_position")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("by", "remainder"),
    [(b, r) for b, r in itertools.product(BY, REMAINDERS) if b not in NEED_WORDS or r != "pass"],
)
def test_column_transformer(frame, by, remainder):
    options = {"transformer_weights": {"n": 3.0, "z": 0.0}} if by == "weights" else {}
    rows = frame
    if remainder == "pass":
        # words cannot be passed through into a matrix of numbers: they become codes before
        rows = frame.assign(**{c: pd.factorize(frame[c])[0] for c in WORDS})
    transformer = ColumnTransformer(
        BY[by],
        remainder=REMAINDERS[remainder],
        sparse_threshold=1.0 if by == "mask" else 0.3,
        **options,
    ).fit(rows)
    sample = rows if by.startswith("one_") else None
    traced = assert_traced(transformer, rows, sample)
    used = {c for o in traced.outputs for c in o.columns}
    assert set(traced.unused) == set(COLUMNS) - used
    assert traced.blocks() == {
        c: [i for i, o in enumerate(traced.outputs) if o.columns == (c,)]
        for c in COLUMNS
        if c in used
    }


@pytest.mark.filterwarnings("ignore")
def test_remainder_columns_held_as_positions():
    # up to 1.8 an option chooses between names and positions for the remainder
    rows = pd.DataFrame(
        {"a": [1.0, 2, 3], "b": [3.0, 1, 2], "c": ["x", "y", "x"], "d": [0.0, 5, 9]}
    )
    arguments = {"force_int_remainder_cols": True} if VERSION < (1, 7) else {}
    for own in (["c"], [2], slice(2, 3), [False, False, True, False]):
        transformer = ColumnTransformer(
            [("c", OneHotEncoder(), own)], remainder=MinMaxScaler(), **arguments
        ).fit(rows)
        assert [o.columns for o in assert_traced(transformer, rows).outputs] == [
            ("c",),
            ("c",),
            ("a",),
            ("b",),
            ("d",),
        ]


def test_arrays_and_names_that_are_numbers(frame):
    rows = frame[["age", "job", "debt"]]
    numbered = rows.set_axis([10, 0, 5], axis=1)
    steps = [("w", OneHotEncoder(), [1]), ("n", StandardScaler(), [2])]
    for given in (rows.to_numpy(), numbered):
        transformer = ColumnTransformer(steps, remainder="passthrough").fit(given)
        traced = trace(transformer, ["age", "job", "debt"])
        assert list(traced.blocks()) == ["age", "job", "debt"]
        assert traced.blocks() == {"age": [6], "job": [0, 1, 2, 3, 4], "debt": [5]}
        probed = make_pipeline(transformer, FunctionTransformer(lambda x: x[:, ::-1])).fit(given)
        sample = given if isinstance(given, np.ndarray) else numbered.set_axis(rows.columns, axis=1)
        sample = sample if isinstance(given, np.ndarray) else sample.to_numpy()
        assert trace(probed, ["age", "job", "debt"], sample).blocks() == {
            "age": [0],
            "job": [2, 3, 4, 5, 6],
            "debt": [1],
        }


def test_names_that_print_alike_are_kept_apart(frame):
    rows = frame[["job", "job_x"]]
    transformer = make_column_transformer(
        (OneHotEncoder(), ["job_x", "job"]), verbose_feature_names_out=False
    )
    encoder = OneHotEncoder().fit(rows)
    printed = list(encoder.get_feature_names_out())
    assert printed.count("job_x_y") == 2
    traced = assert_traced(encoder, rows)
    alike = [o for o, name in zip(traced.outputs, printed, strict=True) if name == "job_x_y"]
    assert alike == [Output(("job",), "level", "x_y"), Output(("job_x",), "level", "y")]
    assert traced.blocks() == {"job": [0, 1, 2, 3, 4], "job_x": [5, 6]}
    # scikit-learn orders the outputs as the columns were chosen; groups stay in raw order
    assert trace(transformer.fit(rows), rows.columns).blocks() == {
        "job": [2, 3, 4, 5, 6],
        "job_x": [0, 1],
    }


# --- probed steps ---


class Polar(TransformerMixin, BaseEstimator):
    """Of the user's own, with nothing to learn: keeps no fitted attribute."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        X = np.asarray(X, dtype=float)
        return np.c_[np.hypot(X[:, 0], X[:, 1]), np.arctan2(X[:, 0], X[:, 1]), X[:, 2:]]


class Differences(StandardScaler):
    """A subclass that does something else than its parent."""

    def transform(self, X):
        X = np.asarray(X, dtype=float)
        return X - np.roll(X, 1, axis=1)


class RenamedScaler(StandardScaler):
    """A subclass that does what its parent does."""


def words_to_numbers(rows):
    orders = {"a": 0, "b": 2, "c": 1, "x_y": 5, "z": 4}
    return np.c_[rows["job"].map(orders), rows["job"] + rows["job_x"] == "zy", rows["age"] / 10]


def rare_pair(rows):
    return ((rows["job"] == "z") & (rows["town"] == "yew")).to_numpy()[:, None].astype(int)


PREPARED = make_column_transformer(
    (NUMERIC, ["age", "pay"]), (OneHotEncoder(sparse_output=False), ["job", "job_x"])
)
PROBED = {
    "log": (NUMBERS, FunctionTransformer(np.log1p)),
    "ratio": (
        ["age", "debt", "rank"],
        FunctionTransformer(lambda rows: rows[["age"]].assign(r=rows["age"] / rows["debt"])),
    ),
    "words": (["age", "job", "job_x", "town"], FunctionTransformer(words_to_numbers)),
    "rare_pair": (["job", "town", "age"], FunctionTransformer(rare_pair)),
    "bias": (["age", "debt"], FunctionTransformer(lambda rows: np.c_[np.ones(len(rows)), rows])),
    "pca": (["age", "debt", "rank"], PCA(2)),
    "svd_of_levels": (["job", "job_x"], make_pipeline(OneHotEncoder(), TruncatedSVD(3))),
    "own": (["age", "debt", "rank", "owner"], Polar()),
    "subclass": (["age", "debt", "rank", "owner"], Differences()),
    "part": (
        COLUMNS,
        make_column_transformer(
            (make_pipeline(SimpleImputer(), PCA(2)), ["age", "pay"]),
            (FunctionTransformer(lambda rows: rows * 2.0), ["debt"]),
            (NUMERIC, ["rank"]),
            (ENCODER, ["job"]),
        ),
    ),
    "after": (
        COLUMNS,
        make_pipeline(
            PREPARED,
            FunctionTransformer(lambda x: np.c_[x[:, :1] * x[:, 1:2], x[:, 2:]]),
            KBinsDiscretizer(2, strategy="uniform"),
        ),
    ),
    "union": (
        ["age", "debt", "rank"],
        make_union(PCA(1), FunctionTransformer(np.sqrt), StandardScaler()),
    ),
    "frames_within": (
        ["age", "pay", "debt", "job"],
        make_pipeline(
            make_column_transformer(
                (NUMERIC, ["age", "pay"]),
                (OneHotEncoder(sparse_output=False), ["job"]),
                verbose_feature_names_out=False,
            ).set_output(transform="pandas"),
            make_column_transformer(
                (StandardScaler(), make_column_selector("^age|^pay")),
                (
                    FunctionTransformer(lambda f: f[["job_a"]] - f[["job_b"]].to_numpy()),
                    ["job_b", "job_a"],
                ),
                remainder="drop",
            ),
        ),
    ),
    "text": (
        ["age", "job", "town"],
        make_column_transformer(
            (CountVectorizer(analyzer="char"), "job"), (StandardScaler(), ["age"])
        ),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROBED)
def test_unknown_structure_is_probed(frame, labels, name):
    columns, transformer = PROBED[name]
    rows = frame[columns].assign(
        **({"pay": frame["pay"].fillna(0)} if name == "log" and "pay" in columns else {})
    )
    transformer.fit(rows, labels)
    traced = assert_traced(transformer, rows, rows)
    assert any("was probed" in note for note in traced.notes)


# columns of every output where there are no rows to probe with; the others cannot say how many
# outputs they have
NOT_PROBED = {
    "pca": [{"age", "debt", "rank"}] * 2,
    "svd_of_levels": [{"job", "job_x"}] * 3,
    "subclass": [{"age", "debt", "rank", "owner"}] * 4,
    "part": [*[{"age", "pay"}] * 2, {"debt"}, {"rank"}, *[{"job"}] * 5],
    "text": [*[{"job"}] * 7, {"age"}],
    # the next step, or the ColumnTransformer around it, knows how many outputs a function has
    "after": [{"age", "pay", "job", "job_x"}] * 16,
    "frames_within": [{"age"}, {"pay"}, {"job"}],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROBED)
def test_without_a_sample_everything_depends_on_everything(frame, labels, name):
    columns, transformer = PROBED[name]
    transformer.fit(frame[columns].fillna({"pay": 0.0}), labels)
    if name in NOT_PROBED:
        traced = trace(transformer, columns)
        assert [set(o.columns) for o in traced.outputs] == NOT_PROBED[name]
        assert any("was not probed, as there are no sample rows" in note for note in traced.notes)
    else:
        with pytest.raises(ModelError, match="give sample rows"):
            trace(transformer, columns)


def test_kinds_of_probed_outputs(frame):
    rows = frame[["age", "debt", "job", "job_x"]]

    def function(rows):
        return np.c_[
            rows["age"] / 2,
            rows["age"] > 40,
            np.where(rows["debt"] > 2, 1.0, -1.0),
            rows["job"].map({"a": 0, "b": 2, "c": 1, "x_y": 5, "z": 4}),
            rows["age"] + (rows["job"] == "a"),
            np.full(len(rows), 3.0),
            rows["debt"],
        ]

    traced = trace(FunctionTransformer(function).fit(rows), rows.columns, rows)
    assert traced.outputs == (
        Output(("age",), "value"),
        Output(("age",), "indicator"),
        Output(("debt",), "code"),  # two states which are not 0 and 1
        Output(("job",), "code"),  # words held as numbers
        Output(("age", "job"), "value"),
        Output((), "value"),
        Output(("debt",), "value"),
    )
    assert "1 of its outputs never changed and are taken to depend on no column" in traced.notes[0]


def test_a_step_that_changes_nothing_keeps_levels(frame):
    rows = frame[["job", "age"]]
    prepared = make_column_transformer((OneHotEncoder(), ["job"]), (PowerTransformer(), ["age"]))
    dense = FunctionTransformer(lambda x: np.asarray(x, dtype=np.float64))
    traced = assert_traced(make_pipeline(prepared, dense).fit(rows), rows, rows)
    assert "leaves every value of the sample as it is" in traced.notes[0]
    assert [(o.kind, o.level) for o in traced.outputs] == [
        *(("level", level) for level in ["a", "b", "c", "x_y", "z"]),
        ("value", None),
    ]
    subclass = RenamedScaler().fit(rows[["age"]])
    assert trace(subclass, ["age"], rows[["age"]]).notes == ()


class Misdescribed(PolynomialFeatures):
    """Says less about its outputs than it has."""

    @property
    def powers_(self):
        return super().powers_[:-1]


def test_a_structure_that_does_not_add_up_is_probed(frame):
    rows = frame[["age", "debt"]]
    within = make_column_transformer((Misdescribed(2), ["debt", "age"])).fit(rows)
    for transformer in (Misdescribed(2).fit(rows), within):
        traced = assert_traced(transformer, rows, rows)
        assert len(traced.outputs) == 6
        assert "(Misdescribed) was probed" in traced.notes[0] or within is not transformer


def test_an_interaction_that_no_sample_row_shows(frame):
    # in no row are both true, so it takes the right row to see the second column matter
    rows = frame[["job", "town"]].copy()
    rows.loc[(rows["job"] == "z"), "town"] = "ash"
    assert not rare_pair(rows).any()
    traced = trace(FunctionTransformer(rare_pair).fit(rows), rows.columns, rows)
    assert traced.outputs == (Output(("job", "town"), "indicator"),)


def test_a_column_with_one_value_cannot_be_ruled_out():
    rows = pd.DataFrame({"a": [1.0, 2, 3], "same": [7.0] * 3, "c": [3.0, 1, 2]})
    traced = trace(FunctionTransformer(lambda x: x * 2).fit(rows), rows.columns, rows)
    assert [o.columns for o in traced.outputs] == [("a",), ("same",), ("c",)]
    assert "'same' could not be, having one value in the sample" in traced.notes[0]


def test_rare_words_of_an_only_column_stay_its_own(frame):
    rows = frame[["job", "age"]]
    transformer = make_column_transformer(
        (CountVectorizer(analyzer="char"), "job"), (StandardScaler(), ["age"])
    ).fit(rows)
    traced = trace(transformer, rows.columns, rows[rows["job"] != "z"])
    assert [o.columns for o in traced.outputs] == [("job",)] * len("_abcxyz") + [("age",)]
    assert "1 of its outputs never changed and are taken to depend on 'job'" in traced.notes[0]


def test_wide_outputs_are_asked_for_fewer_rows(frame, monkeypatch):
    rows = frame[["age", "job", "town"]]
    asked = []

    def function(rows):
        asked.append(len(rows))
        return np.c_[rows["age"] / 2, rows["job"] == "z", rows["town"].isna() * rows["age"]]

    transformer = FunctionTransformer(function).fit(rows)
    expected = [("age",), ("job",), ("age", "town")]
    for cells, most in ((2**25, 1024), (100, 128)):
        monkeypatch.setattr("cfc.auditing.probing._CELLS", cells)
        asked.clear()
        traced = trace(transformer, rows.columns, rows)
        assert [o.columns for o in traced.outputs] == expected
        assert max(asked) == most


def test_functions_that_no_audit_can_rely_on(frame):
    rows = frame[["age", "debt"]]
    rng = np.random.default_rng(0)
    random = FunctionTransformer(lambda x: np.asarray(x) + rng.normal(size=x.shape)).fit(rows)
    traced = trace(random, rows.columns, rows)
    assert [o.columns for o in traced.outputs] == [("age", "debt")] * 2
    assert "differently when asked twice" in traced.notes[0]
    centred = FunctionTransformer(lambda x: x - x.mean(axis=0)).fit(rows)
    traced = trace(centred, rows.columns, rows)
    assert [o.columns for o in traced.outputs] == [("age",), ("debt",)]
    assert "depending on the rows beside it" in traced.notes[0]
    dummies = FunctionTransformer(lambda x: pd.get_dummies(x["age"].astype(int).astype(str)))
    with pytest.raises(ModelError, match="columns for some rows"):
        trace(dummies.fit(rows), rows.columns, rows)
    flat = FunctionTransformer(lambda x: np.asarray(x)[:, 0]).fit(rows)
    with pytest.raises(ModelError, match=r"array of shape \(1,\)"):
        trace(flat, rows.columns, rows)


def test_a_step_that_fails_is_named(frame):
    def broken(rows):
        raise KeyError("income")

    rows = frame[["age", "debt"]]
    inner = make_pipeline(StandardScaler(), FunctionTransformer(lambda x: x))
    transformer = ColumnTransformer([("n", inner, ["age"])]).fit(rows)
    transformer.named_transformers_["n"].steps[1][1].func = broken
    with pytest.raises(ModelError, match=r"fails on rows of the sample: 'income'"):
        trace(transformer, rows.columns, rows)


# --- groups and coordinates ---


def test_groups_of_columns_that_share_a_coordinate(frame):
    rows = frame[["age", "debt", "rank", "owner", "job"]]
    transformer = make_column_transformer(
        (PolynomialFeatures(2, interaction_only=True), ["age", "debt"]),
        (PCA(1), ["rank", "owner"]),
        (OneHotEncoder(), ["job"]),
    ).fit(rows)
    traced = assert_traced(transformer, rows, rows)
    with pytest.raises(GroupError) as caught:
        traced.blocks()
    message = str(caught.value)
    assert "2 problems" in message
    assert "columns 'age', 'debt' cannot be separate groups: they share 1 coordinate" in message
    assert "matrix (3)" in message
    assert "columns 'rank', 'owner' cannot be separate groups" in message
    assert message.count('space="columns"') == 2
    assert message.count("groups= in which these columns are together") == 2
    assert traced.blocks(merge="joined") == {
        "age + debt": [1, 2, 3],
        "rank + owner": [4],
        "job": [5, 6, 7, 8, 9],
    }
    assert traced.constant == (0,)
    assert traced.unused == ()
    assert traced.coordinates()[:5] == [
        Coordinate("f0000", "(constant)", "value"),
        Coordinate("f0001", "age", "value"),
        Coordinate("f0002", "debt", "value"),
        Coordinate("f0003", "age + debt", "value"),
        Coordinate("f0004", "rank + owner", "value"),
    ]
    with pytest.raises(GroupError, match="merge='all' is unknown"):
        traced.blocks(merge="all")


def test_columns_connected_through_a_third_are_one_group():
    rows = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 4)), columns=list("abcd"))
    chain = FunctionTransformer(lambda f: np.c_[f["a"] * f["b"], f["b"] + f["c"], f["d"]]).fit(rows)
    traced = trace(chain, rows.columns, rows)
    assert traced.blocks("joined") == {"a + b + c": [0, 1], "d": [2]}
    with pytest.raises(GroupError, match="'a', 'b', 'c' cannot be separate groups"):
        traced.blocks()


def test_a_joined_name_that_is_taken():
    rows = pd.DataFrame({"a": [1.0, 2, 4], "b": [3.0, 1, 5], "a + b": [0.0, 2, 1]})
    product = FunctionTransformer(lambda f: np.c_[f["a"] * f["b"], f["a + b"]]).fit(rows)
    with pytest.raises(GroupError, match="the name of another column: rename 'a', 'b'"):
        trace(product, rows.columns, rows).blocks("joined")


# --- what does not fit ---


def test_no_transformer(frame):
    traced = trace(None, COLUMNS, frame, nominal=["rank"])
    assert traced.blocks() == {name: [i] for i, name in enumerate(COLUMNS)}
    kinds = {o.columns[0]: o.kind for o in traced.outputs}
    assert {name for name, kind in kinds.items() if kind == "code"} == {*WORDS, "rank"}
    assert set(kinds.values()) == {"code", "value"}


def test_what_holds_numbers():
    rows = pd.DataFrame(
        {
            "real": [0.5, None],
            "whole": pd.array([1, None], dtype="Int64"),
            "mixed": np.array([1, None], dtype=object),
            "nothing": np.array([None, None], dtype=object),
            "flag": [True, False],
            "maybe": np.array([True, None], dtype=object),
            "day": pd.to_datetime(["2020-01-01", "2020-01-02"]),
            "level": pd.Categorical([1, 2]),
            "word": ["a", None],
            "digits": ["1", "2"],
        }
    )
    kinds = [o.kind for o in trace(None, rows.columns, rows).outputs]
    assert kinds == ["value"] * 4 + ["code"] * 6
    objects = rows.astype(object).to_numpy()
    assert [o.kind for o in trace(None, rows.columns, objects).outputs][:6] == kinds[:6]


def test_columns_that_do_not_fit(frame):
    scaler = StandardScaler().fit(frame[["age", "debt"]])
    with pytest.raises(DataError, match="'age' occurs more than once"):
        trace(scaler, ["age", "age"])
    with pytest.raises(DataError, match="fitted on 2 columns, but 3 are given"):
        trace(scaler, ["age", "debt", "rank"])
    with pytest.raises(DataError, match="column 0 was 'age', given is 'debt'"):
        trace(scaler, ["debt", "age"])
    with pytest.raises(DataError, match="name 0 is not a string"):
        trace(StandardScaler().fit([[1.0], [2.0]]), [0])
    with pytest.raises(DataError, match="nominal column 'agee' is no column; nearest known: age"):
        trace(scaler, ["age", "debt"], nominal=["agee"])
    with pytest.raises(DataError, match=r"must have these columns, once each: \['debt'\]"):
        trace(scaler, ["age", "debt"], frame[["age"]])
    with pytest.raises(DataError, match=r"shape \(3,\), expected rows of 2 columns"):
        trace(scaler, ["age", "debt"], np.zeros(3))
    with pytest.raises(DataError, match="the sample has no rows"):
        trace(scaler, ["age", "debt"], frame[["age", "debt"]].head(0))
    # a sample is arranged by name
    assert trace(scaler, ["age", "debt"], frame[["debt", "rank", "age"]]).unused == ()


def test_unfitted_steps_are_named(frame):
    whole = Pipeline(
        [
            ("prepare", ColumnTransformer([("n", StandardScaler(), ["age"])])),
            ("own", Polar()),
            ("model", LogisticRegression()),
        ]
    )
    with pytest.raises(ModelError) as caught:
        check_fitted(whole)
    message = str(caught.value)
    assert "step 'prepare' (ColumnTransformer) is not fitted" in message
    assert "step 'model' (LogisticRegression) is not fitted" in message
    assert "'own'" not in message  # it may have nothing to learn
    with pytest.raises(ModelError, match="the StandardScaler is not fitted"):
        trace(StandardScaler(), ["age"])

    fitted = ColumnTransformer(
        [
            ("n", make_pipeline(SimpleImputer(), Polar(), StandardScaler()), NUMBERS),
            ("nothing", StandardScaler(), []),
            ("u", make_union(StandardScaler(), "drop"), ["age"]),
            ("d", "drop", ["job"]),
        ],
        remainder="passthrough",
    ).fit(frame)
    check_fitted(fitted)
    fitted.named_transformers_["n"].steps[2] = ("again", StandardScaler())
    with pytest.raises(ModelError, match=r"step 'n > again' \(StandardScaler\) is not fitted"):
        check_fitted(fitted)
    with pytest.raises(NotFittedError):
        fitted.transform(frame)


# --- splitting a Pipeline ---


def test_split(frame, labels):
    prepare = make_column_transformer((NUMERIC, ["age", "pay"]), (ENCODER, ["job"]))
    model = make_pipeline(prepare, "passthrough", LogisticRegression(max_iter=500))
    model.fit(frame, labels)
    first, last = split_pipeline(model)
    assert [step for _, step in first.steps] == [model[0]]
    assert last is model[-1]
    assert np.array_equal(last.predict_proba(first.transform(frame)), model.predict_proba(frame))
    assert trace(first, COLUMNS, frame).unused == ("debt", "rank", "town", "job_x", "owner")


def test_split_of_nested_pipelines(frame, labels):
    inner = Pipeline([("scale", StandardScaler()), ("none", None), ("model", LogisticRegression())])
    middle = Pipeline([("scale", MaxAbsScaler()), ("rest", inner)])
    model = Pipeline([("scale", SimpleImputer()), ("rest", middle)]).fit(frame[NUMBERS], labels)
    first, last = split_pipeline(model)
    assert [name for name, _ in first.steps] == ["scale", "rest.scale", "rest.rest.scale"]
    assert isinstance(last, LogisticRegression)
    rows = frame[NUMBERS]
    assert np.array_equal(last.predict_proba(first.transform(rows)), model.predict_proba(rows))
    assert trace(first, NUMBERS).blocks() == {c: [i] for i, c in enumerate(NUMBERS)}


def test_split_leaves_wrappers_whole(frame, labels):
    rows = frame[["age", "debt"]]
    wrapped = CalibratedClassifierCV(make_pipeline(StandardScaler(), LogisticRegression()), cv=2)
    model = make_pipeline(StandardScaler(), wrapped).fit(rows, labels > 5)
    first, last = split_pipeline(model)
    assert [type(step) for _, step in first.steps] == [StandardScaler]
    assert last is wrapped
    assert split_pipeline(last) == (None, last)
    assert split_pipeline(make_pipeline("passthrough", wrapped)) == (None, wrapped)
    with pytest.raises(ModelError, match="the last step of the Pipeline, 'pass', is 'passthrough'"):
        split_pipeline(Pipeline([("scale", StandardScaler()), ("pass", "passthrough")]))


def test_split_of_a_search_takes_the_best_pipeline(frame, labels):
    rows, y = frame[["age", "debt"]], labels > 5
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=2).fit(rows, y)
    first, last = split_pipeline(search)
    assert last is search.best_estimator_[-1]
    assert np.array_equal(last.predict_proba(first.transform(rows)), search.predict_proba(rows))


def test_split_before_a_step_that_learns_nothing(frame, labels):
    rows = frame[["age", "debt"]]
    model = make_pipeline(MaxAbsScaler(), Polar(), LogisticRegression()).fit(rows, labels)
    first, last = split_pipeline(model)
    assert np.array_equal(last.predict_proba(first.transform(rows)), model.predict_proba(rows))
    assert [o.columns for o in assert_traced(first, rows, rows).outputs] == [("age", "debt")] * 2


class Sampler(BaseEstimator):
    """What packages for uneven classes put into a Pipeline of their own."""

    def fit_resample(self, X, y):
        return X, y


def test_samplers_are_left_out(frame, labels):
    rows = frame[["age", "debt"]]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels)
    model.steps.insert(1, ("sampler", Sampler()))
    first, last = split_pipeline(model)
    assert [name for name, _ in first.steps] == ["standardscaler"]
    model.steps.pop()
    assert trace(model, rows.columns).blocks() == {"age": [0], "debt": [1]}
    assert last.n_features_in_ == 2


# --- the matrix ---


def test_dense_matrix(frame):
    transformer = make_column_transformer(
        (OneHotEncoder(), ["job", "town"]), ("passthrough", ["pay"]), sparse_threshold=1.0
    ).fit(frame)
    assert sparse.issparse(transformer.transform(frame))
    for dtype in (np.float32, np.float64):
        matrix = transform_dense(transformer, frame, dtype)
        assert matrix.dtype == dtype
        assert matrix.flags.c_contiguous
        assert np.array_equal(matrix[:, -1], frame["pay"].to_numpy(dtype), equal_nan=True)
        assert np.array_equal(matrix[:, :-1].sum(axis=1), np.full(len(frame), 2))
    n, d = matrix.shape
    assert transform_dense(transformer, frame, max_bytes=n * d * 8).shape == (n, d)
    with pytest.raises(
        DataError, match=f"{n} rows of {d} coordinates take .* GiB as a dense float64"
    ):
        transform_dense(transformer, frame, max_bytes=n * d * 8 - 1)
    transformer.set_params(sparse_threshold=0).fit(frame)
    with pytest.raises(DataError, match="Give fewer rows at a time"):
        transform_dense(transformer, frame, max_bytes=100)


def test_dense_matrix_of_frames_and_gaps(frame):
    rows = frame[["age", "owner"]].assign(owner=frame["owner"].astype("Int64"))
    rows.loc[0, "owner"] = pd.NA
    found = transform_dense(None, rows)
    assert found.dtype == np.float64
    assert found.flags.c_contiguous
    assert np.isnan(found[0, 1])
    assert np.array_equal(found[1:], frame[["age", "owner"]].to_numpy(float)[1:])
    passing = make_column_transformer(("passthrough", ["age", "job", "town"])).fit(frame)
    with pytest.raises(DataError, match=r"no number in coordinate 1, 2 \(e.g. '\w+'\)"):
        transform_dense(passing, frame)
