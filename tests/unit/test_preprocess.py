"""From fields to the matrix: traced coordinates, markers, strange names, files, associations."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression

from cfc.baselines import baseline_vectors
from cfc.data.registry import DatasetSpec, FieldSpec
from cfc.errors import ArtifactError, CfcError, DataError, GroupError
from cfc.preprocess import Preprocessor, associations, cramers_v

ODD = ["a[0]", "<b>", 'say "c"', "d e ", "{f}", "it's", "é, ü"]


class Stranger(TransformerMixin, BaseEstimator):
    """A transformer the package knows nothing of."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X


def text(values):
    """A column as the loader gives it: pandas text with missing cells."""
    return pd.Series(values, dtype="str")


def facts(fitted):
    """(field, kind, level, is_missing) of every coordinate."""
    return [(c.field, c.kind, c.level, c.is_missing) for c in fitted.coordinates]


@pytest.fixture
def mixed():
    fields = (
        FieldSpec("age", "numeric"),
        FieldSpec("score", "numeric", markers=(-7.0, -8.0, -9.0)),
        FieldSpec("job", "nominal", unavailable=("unknown",)),
    )
    train = pd.DataFrame(
        {
            "age": [1.0, 2.0, 3.0, 6.0],
            "score": [10.0, -7.0, np.nan, 40.0],
            "job": text(["cook", None, "unknown", "cook"]),
        }
    )
    return fields, train


def test_matrix_by_hand(mixed):
    fields, train = mixed
    fitted = Preprocessor.fit(train, fields)
    # markers in declared order, only those that occur; categories sorted, missing last
    assert facts(fitted) == [
        ("age", "value", None, False),
        ("score", "value", None, False),
        ("score", "indicator", "-7", True),
        ("score", "indicator", "missing", True),
        ("job", "level", "cook", False),
        ("job", "level", "unknown", True),
        ("job", "level", "missing", True),
    ]
    assert [c.alias for c in fitted.coordinates] == [f"f{i:04d}" for i in range(7)]
    assert {k: v.tolist() for k, v in fitted.field_indices.items()} == {
        "age": [0], "score": [1, 2, 3], "job": [4, 5, 6],
    }  # fmt: skip
    # age: mean 3, variance (4 + 1 + 0 + 9)/4; score: absent ones at the median 25
    age = (np.array([1, 2, 3, 6]) - 3) / math.sqrt(3.5)
    score = (np.array([10, 25, 25, 40]) - 25) / math.sqrt(112.5)
    expected = np.column_stack(
        [age, score, [0, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]]
    )
    matrix = fitted.transform(train)
    assert matrix == pytest.approx(expected, abs=1e-6)
    assert matrix.dtype == np.float32
    assert matrix.flags["C_CONTIGUOUS"]


def test_rows_not_in_train(mixed):
    fields, train = mixed
    fitted = Preprocessor.fit(train, fields)
    test = pd.DataFrame(
        {
            "age": [np.nan, 4.0, 4.0],
            "score": [-8.0, -7.0, 10.0],
            "job": text(["pilot", "pilot", "cook"]),
        }
    )
    matrix = fitted.transform(test)
    # the train median of age is 2.5; -8 does not occur in train: absent, but without an indicator
    assert matrix[0, 0] == pytest.approx((2.5 - 3) / math.sqrt(3.5))
    assert matrix[0, 1:4].tolist() == [0, 0, 0]
    assert matrix[1, 1:4].tolist() == [0, 1, 0]
    assert (matrix[:2, 4:] == 0).all()
    assert fitted.unseen(test) == {"job": {"pilot": 2}}
    assert fitted.unseen(train) == {}


def test_missing_that_train_has_not_is_unseen_too(mixed):
    fields, train = mixed
    fitted = Preprocessor.fit(train[train["job"].notna()], fields)
    assert [c.level for c in fitted.coordinates if c.field == "job"] == ["cook", "unknown"]
    assert fitted.unseen(train) == {"job": {"missing": 1}}
    assert (fitted.transform(train)[1, fitted.field_indices["job"]] == 0).all()


def test_order_of_rows_and_of_columns_in_the_table_does_not_matter(mixed):
    fields, train = mixed
    fitted = Preprocessor.fit(train, fields)
    other = train.iloc[::-1][["job", "score", "age"]].assign(extra=1)
    moved = Preprocessor.fit(other, fields)
    assert facts(moved) == facts(fitted)
    assert moved.transform(train[["score", "job", "age"]]) == pytest.approx(
        fitted.transform(train), abs=1e-6
    )


def test_names_that_print_alike_are_kept_apart():
    fields = (FieldSpec("a", "nominal"), FieldSpec("a_b", "nominal"))
    train = pd.DataFrame({"a": text(["b_c", "b_c", "z"]), "a_b": text(["c", "d", "c"])})
    fitted = Preprocessor.fit(train, fields)
    assert facts(fitted) == [
        ("a", "level", "b_c", False),
        ("a", "level", "z", False),
        ("a_b", "level", "c", False),
        ("a_b", "level", "d", False),
    ]
    groups = fitted.groups("raw_origin", spec_of(fields))
    assert groups.names == ("a", "a_b")
    assert [i.tolist() for i in groups.indices] == [[0, 1], [2, 3]]
    assert fitted.transform(train).tolist() == [[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0]]


def spec_of(fields, **rest):
    """A data set with these fields."""
    names = {f.name: {"kind": f.kind, "markers": list(f.markers)} for f in fields}
    names |= {f.name: f.kind for f in fields if not f.markers}
    return DatasetSpec.from_mapping(
        "mine",
        {
            "title": "Mine",
            "source": {"kind": "file", "path": "x.csv"},
            "target": "y",
            "classes": ["0", "1"],
            "fields": names,
            **rest,
        },
    )


@pytest.mark.parametrize("kind", ["numeric", "nominal"])
def test_strange_names_and_categories(kind, tmp_path):
    fields = tuple(FieldSpec(name, kind) for name in ODD)
    columns = {name: np.arange(7.0) if kind == "numeric" else text(ODD) for name in ODD}
    train = pd.DataFrame(columns)
    fitted = Preprocessor.fit(train, fields)
    matrix = fitted.transform(train)
    assert fitted.groups("raw_origin", spec_of(fields)).names == tuple(ODD)
    assert all(c.alias.isalnum() for c in fitted.coordinates)
    if kind == "nominal":
        assert [c.level for c in fitted.coordinates[:7]] == sorted(ODD)
        assert matrix.sum(axis=1).tolist() == [7] * 7
    fitted.save(tmp_path / "p.skops")
    again = Preprocessor.load(tmp_path / "p.skops", fields)
    assert again.coordinates == fitted.coordinates


def test_categories_that_look_like_missing_are_text():
    fields = (FieldSpec("a", "nominal"),)
    train = pd.DataFrame({"a": pd.Series(["nan", "None", None, "missing", ""], dtype="str")})
    fitted = Preprocessor.fit(train, fields)
    assert facts(fitted) == [
        ("a", "level", "", False),
        ("a", "level", "None", False),
        ("a", "level", "missing", False),
        ("a", "level", "nan", False),
        ("a", "level", "missing", True),
    ]
    assert fitted.transform(train).sum(axis=1).tolist() == [1] * 5


@pytest.mark.parametrize("constant", [0.0, 7.0, 0.1, 1e9 + 0.1])
def test_a_constant_column_is_kept_with_deviation_one(constant):
    fields = (FieldSpec("flat", "numeric"), FieldSpec("x", "numeric"))
    train = pd.DataFrame({"flat": np.full(1001, constant), "x": np.linspace(0, 1, 1001)})
    fitted = Preprocessor.fit(train, fields)
    matrix = fitted.transform(train)
    assert np.abs(matrix[:, 0]).max() < 1e-6
    test = pd.DataFrame({"flat": [constant + 2], "x": [0.0]})
    assert fitted.transform(test)[0, 0] == pytest.approx(2)
    # noise in units of train deviations leaves it alone
    assert fitted.noise_scale.tolist() == [0, 1]


def test_an_all_missing_column_is_kept_and_flat():
    fields = (
        FieldSpec("gone", "numeric"),
        FieldSpec("marked", "numeric", (-9.0,)),
        FieldSpec("void", "nominal"),
        FieldSpec("x", "numeric"),
    )
    train = pd.DataFrame(
        {
            "gone": [np.nan] * 3,
            "marked": [-9.0] * 3,
            "void": text([None] * 3),
            "x": [1.0, 2.0, 3.0],
        }
    )
    fitted = Preprocessor.fit(train, fields)
    matrix = fitted.transform(train)
    assert facts(fitted)[:5] == [
        ("gone", "value", None, False),
        ("gone", "indicator", "missing", True),
        ("marked", "value", None, False),
        ("marked", "indicator", "-9", True),
        ("void", "level", "missing", True),
    ]
    assert matrix[:, :5].tolist() == [[0, 1, 0, 1, 1]] * 3
    assert fitted.noise_scale.tolist() == [0, 0, 0, 0, 0, 1]
    assert np.isfinite(np.stack(list(baseline_vectors(matrix, fitted.coordinates).values()))).all()


def test_noise_scale_is_the_deviation_of_the_matrix(mixed):
    fields, train = mixed
    fitted = Preprocessor.fit(train, fields)
    values = [c.kind == "value" for c in fitted.coordinates]
    deviation = fitted.transform(train).std(axis=0)
    assert fitted.noise_scale == pytest.approx(np.where(values, deviation, 0), abs=1e-6)


def test_problems_of_a_table_are_named_together():
    fields = (
        FieldSpec("id", "nominal"),
        FieldSpec("gone", "numeric"),
        FieldSpec("lost", "nominal"),
    )
    train = pd.DataFrame({"id": text([f"user {i}" for i in range(10_000)])})
    with pytest.raises(DataError) as caught:
        Preprocessor.fit(train, fields)
    message = str(caught.value)
    for part in ("'gone' is missing", "'lost' is missing",
                 "'id' has 10000 categories in train, more than 1000", "max_levels"):  # fmt: skip
        assert part in message


def test_missing_counts_as_a_category_of_the_limit():
    fields = (FieldSpec("a", "nominal"),)
    train = pd.DataFrame({"a": text(["x", "y", None])})
    assert len(Preprocessor.fit(train, fields, max_levels=3).coordinates) == 3
    with pytest.raises(DataError, match="has 3 categories"):
        Preprocessor.fit(train, fields, max_levels=2)


# ---- files


def test_saved_and_loaded_is_bit_equal(mixed, tmp_path):
    fields, train = mixed
    fitted = Preprocessor.fit(train, fields)
    fitted.save(tmp_path / "p.skops")
    again = Preprocessor.load(tmp_path / "p.skops", fields)
    assert again.coordinates == fitted.coordinates
    assert again.transform(train).tobytes() == fitted.transform(train).tobytes()
    assert again.noise_scale.tobytes() == fitted.noise_scale.tobytes()
    test = train.assign(job=text(["new", None, "cook", "unknown"]))
    assert again.transform(test).tobytes() == fitted.transform(test).tobytes()
    assert again.unseen(test) == fitted.unseen(test) == {"job": {"new": 1}}


def test_equal_fits_give_equal_bytes(mixed, tmp_path):
    fields, train = mixed
    for name in ("a", "b"):
        Preprocessor.fit(train.copy(), fields).save(tmp_path / name / "p.skops")
    first, second = ((tmp_path / name / "p.skops").read_bytes() for name in ("a", "b"))
    assert first == second


def test_a_file_with_foreign_types_is_refused(mixed, tmp_path):
    from skops import io

    fields, train = mixed
    strange = ColumnTransformer([("field0", Stranger(), [0])]).fit(train[["age"]])
    io.dump(strange, tmp_path / "p.skops")
    with pytest.raises(ArtifactError, match=r"unexpected types .*Stranger"):
        Preprocessor.load(tmp_path / "p.skops", fields[:1])


@pytest.mark.parametrize("content", ["nothing", "garbage", "half", "a model", "other fields"])
def test_a_file_that_is_no_preprocessor_is_refused(mixed, tmp_path, content):
    from skops import io

    fields, train = mixed
    path = tmp_path / "p.skops"
    if content == "garbage":
        path.write_bytes(b"no archive")
    elif content == "half":
        Preprocessor.fit(train, fields).save(path)
        path.write_bytes(path.read_bytes()[:500])
    elif content == "a model":
        io.dump(LogisticRegression(), path)
    elif content == "other fields":
        Preprocessor.fit(train, fields[:1]).save(path)
    with pytest.raises(ArtifactError, match=r"p\.skops"):
        Preprocessor.load(path, fields)


# ---- groupings and associations


def test_groupings(mixed):
    fields, train = mixed
    spec = spec_of(fields, domain_groups={"work": ["job", "score"], "person": ["age"]})
    fitted = Preprocessor.fit(train, fields)
    raw = fitted.groups("raw_origin", spec)
    assert raw.names == ("age", "score", "job")
    assert raw.label == "raw_origin"
    domain = fitted.groups("domain", spec)
    assert domain.names == ("work", "person")
    assert domain.indices[0].tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(DataError, match="declares no domain_groups"):
        fitted.groups("domain", spec_of(fields))
    with pytest.raises(CfcError, match="'raw' is unknown"):
        fitted.groups("raw", spec)
    assert issubclass(GroupError, CfcError)


def test_redundant_fields_are_merged():
    rng = np.random.default_rng(0)
    n = 500
    x = rng.normal(size=n)
    letters = np.array(list("pqrs"))[rng.integers(4, size=n)]
    train = pd.DataFrame(
        {
            "x": x,
            "other": rng.normal(size=n),
            "minus_cubed": -(x**3),  # |Spearman| is 1
            "letter": text(letters),
            "again": text(np.char.upper(letters)),  # Cramér's V is 1
        }
    )
    fields = tuple(
        FieldSpec(name, "nominal" if train[name].dtype == "str" else "numeric") for name in train
    )
    fitted = Preprocessor.fit(train, fields)
    groups = fitted.groups("redundancy_merged", spec_of(fields), train)
    assert groups.names == ("x + minus_cubed", "other", "letter + again")
    assert groups.label == "redundancy_merged"


def test_cramers_v_by_hand():
    # 2 x 2 table 30, 10 / 10, 30 of n = 80: χ² = 80 (900 - 100)² / 40⁴ = 20, φ² = 1/4;
    # less (1)(1)/79; rows and columns corrected to 2 - 1/79
    a = np.repeat([0, 0, 1, 1], [30, 10, 10, 30])
    b = np.repeat([0, 1, 0, 1], [30, 10, 10, 30])
    assert cramers_v(a, b) == pytest.approx(math.sqrt((0.25 - 1 / 79) / (1 - 1 / 79)))
    # 2 x 3, independent: φ² = 0, and the correction must not make it negative
    a = np.repeat([0, 1], 30)
    b = np.tile([0, 1, 2], 20)
    assert cramers_v(a, b) == 0
    # 3 x 3, identical
    codes = np.tile([0, 1, 2], 30)
    assert cramers_v(codes, codes) == pytest.approx(1)
    assert cramers_v(codes, np.zeros(90, dtype=int)) == 0


def test_associations_look_at_present_values_only():
    n = 60
    x = np.arange(n, dtype=float)
    marked = x.copy()
    marked[::2] = -9  # read as values they would spoil the ranks
    gaps = x.copy()
    gaps[::3] = np.nan
    table = pd.DataFrame({"x": x, "marked": marked, "gaps": gaps, "flat": np.ones(n)})
    fields = [FieldSpec("x", "numeric"), FieldSpec("marked", "numeric", (-9.0,)),
              FieldSpec("gaps", "numeric"), FieldSpec("flat", "numeric")]  # fmt: skip
    found = associations(table, fields)
    assert found["x", "marked"] == pytest.approx(1)
    assert found["marked", "gaps"] == pytest.approx(1)
    assert found["x", "flat"] == 0
    assert len(found) == 6
    assert associations(table, fields[::-1])["flat", "x"] == 0


def test_a_number_with_many_values_is_cut_at_its_deciles():
    n = 1000
    x = np.arange(n, dtype=float)
    table = pd.DataFrame({"x": x, "decile": text([f"d{i}" for i in np.arange(n) * 10 // n])})
    fields = [FieldSpec("x", "numeric"), FieldSpec("decile", "nominal")]
    assert associations(table, fields)["x", "decile"] > 0.98


def test_real_data_has_one_block_a_field(shared_data, repository):
    yaml = pytest.importorskip("yaml")
    registry = yaml.safe_load((repository / "config" / "datasets.yaml").read_text(encoding="utf-8"))
    spec = DatasetSpec.from_mapping("heloc", registry["dataset_registry"]["heloc"])
    table = pd.read_parquet(shared_data / "heloc.parquet")[list(spec.field_names)].astype(float)
    fitted = Preprocessor.fit(table, spec.fields)
    groups = fitted.groups("raw_origin", spec)
    assert groups.names == spec.field_names
    matrix = fitted.transform(table)
    assert np.isfinite(matrix).all()
    for name, index in groups:
        # 588 rows have no record in any field: -9 everywhere
        kinds = [fitted.coordinates[i].level for i in index]
        assert kinds[0] is None
        assert matrix[:, index[kinds.index("-9")]].sum() >= 588, name
