"""Tables of one's own: containers, kinds of cells, codes, and a hash of the content."""

import datetime
import hashlib
import io
import struct

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cfc.auditing.tables import (
    UNSEEN,
    ColumnCodec,
    align,
    as_frame,
    content_hash,
    values_of,
)
from cfc.errors import DataError

FAST = settings(
    derandomize=True,
    max_examples=25,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [31.5, np.nan, 40.0, 18.0],
            "job": ["b", "a", None, "b"],
            "grade": pd.Categorical(
                ["low", "high", "low", None], categories=["low", "mid", "high"]
            ),
            "owner": [True, False, True, True],
            "since": pd.to_datetime(["2020-01-05", "2019-03-01", None, "2020-01-05"]),
            "children": [0, 2, 1, 0],
        },
        index=["p", "q", "r", "s"],
    )


def containers(table: pd.DataFrame) -> dict:
    """Return the same rows in every way a library can hold them."""
    plain = table.reset_index(drop=True)
    made = {
        "pandas": table,
        "nullable": table.convert_dtypes(),
        "arrow-backed": table.convert_dtypes(dtype_backend="pyarrow"),
        "objects": table.astype(object),
        "arrow": pa.Table.from_pandas(plain),
        "array": plain.astype(object).to_numpy(),
    }
    try:
        import polars
    except ModuleNotFoundError:
        return made
    return made | {"polars": polars.from_pandas(plain)}


# ---- containers -------------------------------------------------------------------------------


def test_frames_keep_index_and_names():
    table = as_frame(frame())
    assert table.container == "pandas"
    assert table.index.tolist() == ["p", "q", "r", "s"]
    assert list(table.frame.index) == [0, 1, 2, 3]
    assert table.labels == ("age", "job", "grade", "owner", "since", "children")


def test_array_columns_are_named():
    array = np.arange(6.0).reshape(3, 2)
    assert list(as_frame(array).frame.columns) == ["x0", "x1"]
    named = as_frame(array, ["a", "b"])
    assert list(named.frame.columns) == ["a", "b"]
    assert named.frame["b"].tolist() == [1.0, 3.0, 5.0]
    with pytest.raises(DataError, match="has 2 columns, expected 3"):
        as_frame(array, ["a", "b", "c"])


def test_index_noted_by_pandas_in_a_file_comes_back(tmp_path):
    frame().to_parquet(tmp_path / "t.parquet")
    table = as_frame(pq.read_table(tmp_path / "t.parquet"))
    assert table.index.tolist() == ["p", "q", "r", "s"]
    assert list(table.frame.columns) == list(frame().columns)


def test_whole_number_labels_become_text_and_come_back():
    numbered = pd.DataFrame(np.eye(3))
    table = as_frame(numbered)
    assert list(table.frame.columns) == ["0", "1", "2"]
    back = ColumnCodec.of(table).decode(np.eye(3))
    pd.testing.assert_frame_equal(back, numbered)
    with pytest.raises(DataError, match="more than once: '1'"):
        as_frame(pd.DataFrame(np.eye(2), columns=[1, "1"]))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"a": 1}], "use pandas.DataFrame"),
        ({"a": [1]}, "use pandas.DataFrame"),
        (pd.Series([1.0]), r"X.iloc\[\[0\]\]"),
        (np.ones(3), r"X.reshape\(1, -1\)"),
        (np.ones((1, 2, 3)), r"shape \(1, 2, 3\)"),
        (np.zeros(2, dtype=[("a", float)]), "structured"),
        (np.ma.masked_array(np.ones((1, 2))), "masked"),
        (np.ones((0, 3)), "there is no row"),
        (np.ones((3, 0)), "there is no column"),
        (pd.DataFrame({"a": []}), "there is no row"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "more than once: 'a'"),
        (pa.table([[1], [2]], names=["a", "a"]), "more than once: 'a'"),
        (
            pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
            "names have 2 levels",
        ),
        (pd.DataFrame({"a": [1, 2, 3]}, index=[7, 7, 8]), "index is not unique: '7' occur"),
    ],
)
def test_what_is_no_table_is_refused_with_the_way_out(rows, words):
    with pytest.raises(DataError, match=words):
        as_frame(rows)


def test_other_libraries_tables_are_refused_with_the_way_out():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(DataError, match=r"X.toarray\(\)"):
        as_frame(scipy_sparse.eye(2, format="csr"))
    polars = pytest.importorskip("polars")
    with pytest.raises(DataError, match=r"collect\(\) it first"):
        as_frame(polars.LazyFrame({"a": [1]}))


# ---- cells ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "dtype", "kind", "expected"),
    [
        ([1, 2, None], "Int64", "number", [1.0, 2.0, np.nan]),
        ([1, 2.5, None], object, "number", [1.0, 2.5, np.nan]),
        ([1, 0, 3], np.uint8, "number", [1.0, 0.0, 3.0]),
        ([True, None, False], object, "boolean", [1.0, np.nan, 0.0]),
        ([True, None, False], "boolean", "boolean", [1.0, np.nan, 0.0]),
        ([True, None, False], pd.ArrowDtype(pa.bool_()), "boolean", [1.0, np.nan, 0.0]),
        (["u", None, "v"], object, "text", ["u", None, "v"]),
        (["u", float("nan"), "v"], "category", "text", ["u", None, "v"]),
        ([3, 1, 3], "category", "number", [3.0, 1.0, 3.0]),
        ([None, None], object, "missing", [np.nan, np.nan]),
        ([None, None], pd.ArrowDtype(pa.null()), "missing", [np.nan, np.nan]),
        ([0.0, 0.0, 2.0], pd.SparseDtype(float, 0.0), "number", [0.0, 0.0, 2.0]),
    ],
)
def test_cells_are_what_they_hold(cells, dtype, kind, expected):
    values = values_of(pd.Series(cells, dtype=dtype))
    assert values.kind == kind
    np.testing.assert_array_equal(values.data, np.array(expected, dtype=values.data.dtype))
    np.testing.assert_array_equal(values.missing, [pd.isna(e) for e in expected])


def test_dates_of_any_resolution_are_moments():
    day = datetime.date(2020, 1, 5)
    midnight = np.datetime64("2020-01-05")
    for column in (
        pd.Series([day, None], dtype=object),
        pd.Series(["2020-01-05", None], dtype="datetime64[s]"),
        pd.Series(["2020-01-05", None], dtype="datetime64[ns]"),
        pd.Series([day, None], dtype=pd.ArrowDtype(pa.date32())),
    ):
        values = values_of(column)
        assert values.kind == "time"
        assert values.data[0] == midnight
        assert np.isnat(values.data[1])
    paris = values_of(pd.Series(pd.to_datetime(["2020-01-05 01:00"]).tz_localize("Europe/Paris")))
    assert (paris.kind, paris.data[0]) == ("instant", midnight)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([1, "a", 2], r"mixed types: int \(1, row 0\), str \('a', row 1\)"),
        ([True, 2, None], r"mixed types: bool \(True, row 0\), int \(2, row 1\)"),
        ([None, "a", 1.5], r"mixed types: str \('a', row 1\), float \(1.5, row 2\)"),
        ([2**53 + 1, 3], r"beyond 2\*\*53, such as 9007199254740993"),
        ([10**30], r"beyond 2\*\*53"),
        ([b"a"], "bytes; decode it"),
        ([pd.Timedelta(1)], "durations"),
        ([[1, 2]], r"not accepted: list \(\[1, 2\], row 0\)"),
        ([1j], "complex"),
        (
            [pd.Timestamp("2020"), pd.Timestamp("2020", tz="UTC")],
            "with and without a time zone",
        ),
    ],
)
def test_unusable_columns_are_refused_by_name(cells, words):
    table = pd.DataFrame({"good": [0.0] * len(cells)})
    table["bad"] = pd.Series(cells, dtype=object)
    with pytest.raises(DataError, match=f"column 'bad' holds .*{words}"):
        align(table, {"good": "number", "bad": None})


def test_large_integers_of_every_dtype_are_refused():
    limit = 2**53
    for dtype in ("int64", "uint64", "Int64", pd.ArrowDtype(pa.int64())):
        assert values_of(pd.Series([limit], dtype=dtype)).data[0] == limit
        with pytest.raises(DataError, match="beyond 2"):
            values_of(pd.Series([limit + 1], dtype=dtype))
    assert values_of(pd.Series([1e300])).data[0] == 1e300


# ---- columns a model wants --------------------------------------------------------------------

KINDS = {"age": "number", "job": "text", "owner": "boolean"}


def test_columns_are_brought_into_the_models_order():
    rows = frame()[["owner", "job", "age"]]
    values = align(rows, KINDS)
    assert list(values) == ["age", "job", "owner"]
    assert values["job"].data.tolist() == ["b", "a", None, "b"]


def test_every_misfit_is_named_at_once():
    rows = pd.DataFrame({"jbo": ["b"], "age": ["old"], "owner": [3], "weight": [1.0]}, index=["p"])
    with pytest.raises(DataError) as caught:
        align(rows, KINDS, where="background")
    message = str(caught.value)
    assert message.startswith("background: 4 problems")
    for part in (
        "column 'job' is missing; nearest known: jbo",
        "columns the model does not know: 'jbo', 'weight'",
        "column 'age' holds text (first: 'old', row 0) where the model saw numbers",
        "pandas.to_numeric",
        "column 'owner' holds numbers (first: '3', row 0) where the model saw truth values",
    ):
        assert part in message
    with pytest.raises(DataError) as caught:
        align(rows, KINDS, ignore_extra=True)
    assert "weight" not in str(caught.value)


def test_extra_columns_can_be_left_out():
    assert list(align(frame(), KINDS, ignore_extra=True)) == list(KINDS)


@pytest.mark.parametrize(
    ("kind", "cells", "expected"),
    [
        ("boolean", [1, 0, 1], [1.0, 0.0, 1.0]),  # truth values after a CSV file
        ("boolean", [1.0, np.nan], [1.0, np.nan]),
        ("number", [True, False], [1.0, 0.0]),
        ("number", pd.Categorical([20, 10]), [20.0, 10.0]),
        ("text", [np.nan, np.nan], [None, None]),
        ("number", [None, None], [np.nan, np.nan]),
    ],
)
def test_kinds_that_hold_the_same_are_accepted(kind, cells, expected):
    values = align(pd.DataFrame({"a": cells}), {"a": kind})["a"]
    assert values.kind == kind
    np.testing.assert_array_equal(values.data, np.array(expected, dtype=values.data.dtype))


def test_numbers_where_text_was_seen_are_refused():
    with pytest.raises(DataError, match=r"holds numbers \(first: '3', row 1\) .* saw text"):
        align(pd.DataFrame({"a": [np.nan, 3.0]}), {"a": "text"})


# ---- matrix and back --------------------------------------------------------------------------


def test_codes_follow_known_levels_then_the_sorted_rest():
    codec = ColumnCodec.of(
        as_frame(frame()), ["job", "grade", "owner", "children"], known={"job": ["c", "b"]},
        nominal=["children"],
    )  # fmt: skip
    assert {c.name: c.texts() for c in codec.columns} == {
        "job": ["c", "b", "a"],
        "grade": ["low", "mid", "high"],
        "owner": ["False", "True"],
        "children": ["0", "1", "2"],
    }
    matrix, unseen = codec.encode(frame()[["job", "grade", "owner", "children"]])
    np.testing.assert_array_equal(
        matrix, [[1, 0, 1, 0], [2, 2, 0, 2], [np.nan, 0, 1, 1], [1, np.nan, 1, 0]]
    )
    assert not unseen.mask.any()


@pytest.mark.parametrize(
    "name", ["pandas", "nullable", "arrow-backed", "objects", "arrow", "array", "polars"]
)
def test_decoding_gives_back_container_types_and_cells(name):
    held = containers(frame())
    if name not in held:
        pytest.skip("needs polars")
    rows = held[name]
    table = as_frame(rows)
    codec = ColumnCodec.of(table)
    matrix, _ = codec.encode(rows)
    back = codec.decode(matrix)
    assert type(back) is type(rows)
    assert content_hash(back) == content_hash(rows)
    again = as_frame(back)
    for column, before, after in zip(codec.columns, table.dtypes, again.dtypes, strict=True):
        if column.is_nominal:
            assert after == before
    np.testing.assert_array_equal(codec.encode(back)[0], matrix)
    # a type must not depend on which rows are decoded
    assert as_frame(codec.decode(matrix[:1])).dtypes == again.dtypes


def test_numeric_columns_decode_to_floats_whatever_they_were():
    rows = pd.DataFrame({"i": [1, 2], "f": np.float32([0.5, 1]), "n": pd.array([1, 2], "Int8")})
    back = ColumnCodec.of(as_frame(rows)).decode(np.array([[1, 0.5, 2.5]]))
    assert back.dtypes.astype(str).tolist() == ["float64", "float32", "float64"]
    assert back.iloc[0].tolist() == [1.0, 0.5, 2.5]
    wide = as_frame(rows.astype({"f": np.float64}))
    assert ColumnCodec.of(as_frame(rows), more=wide).columns[1].dtype == np.float64


def test_plain_arrays_come_back_as_arrays():
    array = np.array([[1.0, 2.0], [3.0, np.nan]], dtype=np.float32)
    codec = ColumnCodec.of(as_frame(array), nominal=["x0"])
    matrix, _ = codec.encode(array)
    # levels that are numbers in an array stay themselves
    np.testing.assert_array_equal(matrix, array.astype(np.float64))
    back = codec.decode(matrix)
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, array)


def test_integer_categories_survive_a_file_that_forgets_them(tmp_path):
    """Parquet gives pandas' integer categories back as plain integers."""
    rows = pd.DataFrame({"code": pd.Categorical([30, 10, 30], categories=[30, 10, 20])})
    rows.to_parquet(tmp_path / "t.parquet")
    read = pd.read_parquet(tmp_path / "t.parquet")
    codec = ColumnCodec.of(as_frame(rows))
    np.testing.assert_array_equal(codec.encode(read)[0], [[0], [1], [0]])
    pd.testing.assert_frame_equal(codec.decode(codec.encode(read)[0]), rows)


def test_unseen_levels_are_counted_and_named():
    codec = ColumnCodec.of(as_frame(frame()), ["age", "job"])
    rows = pd.DataFrame({"age": [1.0, 2.0, 3.0], "job": ["z", "a", "z"]})
    matrix, unseen = codec.encode(rows)
    assert matrix[:, 1].tolist() == [UNSEEN, 0.0, UNSEEN]
    assert unseen.mask.tolist() == [[False, True], [False, False], [False, True]]
    assert unseen.levels == {"job": {"z": 2}}
    assert unseen.problems() == ["column 'job' has levels the model does not know: 'z' (2 rows)"]
    with pytest.raises(DataError, match=r"column 'job': -1\.0 stands for no known level"):
        codec.decode(matrix)


def test_a_code_cannot_be_averaged_or_faded():
    codec = ColumnCodec.of(as_frame(frame()), ["job"])
    with pytest.raises(DataError, match=r"column 'job': 0\.5 .* not averaged or faded"):
        codec.decode(np.array([[0.5]]))
    with pytest.raises(DataError, match="stands for no known level"):
        codec.decode(np.array([[7.0]]))


def test_infinite_numbers_are_named():
    codec = ColumnCodec.of(as_frame(np.ones((2, 2))))
    with pytest.raises(DataError, match="column 'x1' is infinite in 1 row, first in row 1"):
        codec.encode(np.array([[1.0, 2.0], [3.0, -np.inf]]))


def test_nominal_columns_must_exist():
    with pytest.raises(DataError, match=r"nominal: column 'chldren' .* children"):
        ColumnCodec.of(as_frame(frame()), nominal=["chldren"])


def test_the_kind_of_missing_object_is_kept():
    for marker in (None, np.nan, pd.NA):
        rows = pd.DataFrame({"a": pd.Series(["u", marker], dtype=object)})
        back = ColumnCodec.of(as_frame(rows)).decode(np.array([[np.nan]]))
        assert type(back["a"].iloc[0]) is type(marker)


# ---- hash -------------------------------------------------------------------------------------


def test_the_hash_is_the_documented_recipe():
    rows = pd.DataFrame(
        {
            "x": [1.5, -0.0, np.nan],
            "é": ["b", None, "a"],
            "ok": pd.array([True, None, False], "boolean"),
            "on": np.array(["1970-01-02", "1969-12-31T23:59:59.5", "NaT"], dtype="M8[ms]"),
            "void": [None, None, None],
        }
    )
    quiet_nan = b"\0\0\0\0\0\0\xf8\x7f"
    recipe = [
        b"cfc table 1\n",
        struct.pack("<2q", 3, 5),
        struct.pack("<q", 1) + b"x" + b"n",
        struct.pack("<2d", 1.5, 0.0) + quiet_nan,
        struct.pack("<q", 2) + b"\xc3\xa9" + b"s",
        struct.pack("<q", 2) + struct.pack("<q", 1) + b"a" + struct.pack("<q", 1) + b"b",
        struct.pack("<3q", 1, -1, 0),
        struct.pack("<q", 2) + b"ok" + b"b" + bytes([1, 2, 0]),
        struct.pack("<q", 2) + b"on" + b"t",
        struct.pack("<3q", 86400, -1, -(2**63)),
        struct.pack("<3q", 0, 500_000_000, 0),
        struct.pack("<q", 4) + b"void" + b"m",
    ]
    expected = hashlib.sha256(b"".join(recipe)).hexdigest()
    assert expected == "8b5eb77b7a345ed497b5f559826c03ccdad6ca4e17a31dccec7a22f0a035b0d6"
    assert content_hash(rows) == expected


# the default since pandas 3, where saying so is deprecated
ROUND_TRIP = {"float_precision": "round_trip"} if pd.__version__ < "3" else {}
CELLS = st.fixed_dictionaries(
    {
        "number": st.one_of(
            st.none(),
            st.integers(-(2**53), 2**53),
            st.floats(allow_nan=False, allow_infinity=False),
        ),
        # text that no CSV reader takes for a number, a truth value or a missing cell
        "text": st.one_of(st.none(), st.text("xyzü ,\"'", min_size=1).map("q".__add__)),
        "truth": st.one_of(st.none(), st.booleans()),
        "whole": st.integers(-(2**53), 2**53),
    }
)


@FAST
@given(st.lists(CELLS, min_size=1, max_size=8))
def test_the_hash_does_not_depend_on_how_cells_are_held(cells):
    plain = pd.DataFrame(
        {
            "number": pd.Series([c["number"] for c in cells], dtype=np.float64),
            "text": pd.Series([c["text"] for c in cells], dtype=object),
            "truth": pd.Series([c["truth"] for c in cells], dtype="boolean"),
            "whole": pd.Series([c["whole"] for c in cells], dtype=np.int64),
        }
    )
    expected = content_hash(plain)
    held = dict(containers(plain))
    held["category"] = plain.astype({"text": "category"})
    held["floats"] = plain.astype({"whole": np.float64})
    held["index"] = plain.set_axis(range(5, 5 + len(plain)))
    held["zero"] = plain.assign(number=plain["number"].where(plain["number"] != 0, -0.0))
    parquet = io.BytesIO()
    plain.to_parquet(parquet)
    held["parquet"] = pd.read_parquet(parquet)
    held["parquet, arrow"] = pq.read_table(parquet)
    held["csv"] = pd.read_csv(io.StringIO(plain.to_csv(index=False)), **ROUND_TRIP)
    names = list(plain.columns)
    found = {
        key: content_hash(pd.DataFrame(rows, columns=names) if key == "array" else rows)
        for key, rows in held.items()
    }
    assert found == dict.fromkeys(held, expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.assign(age=[31.5, np.nan, 40.0, 18.0 + 1e-14]),
        lambda t: t.iloc[::-1],
        lambda t: t[list(t.columns[::-1])],
        lambda t: t.rename(columns={"age": "Age"}),
        lambda t: t.assign(job=["b", "a", "", "b"]),
        lambda t: t.assign(job=["a", "b", None, "a"]),
        lambda t: t.assign(owner=[1, 0, 1, 1]),
        lambda t: t.assign(children=["0", "2", "1", "0"]),
        lambda t: t.assign(since=t["since"] + pd.Timedelta(1, "ns")),
        lambda t: t.assign(since=t["since"].dt.tz_localize("UTC")),
        lambda t: t.iloc[:3],
    ],
)  # fmt: skip
def test_the_hash_changes_with_the_content(change):
    assert content_hash(change(frame())) != content_hash(frame())


def test_names_and_cells_cannot_run_into_each_other():
    one = pd.DataFrame({"a": ["bc", "d"]})
    assert content_hash(one) != content_hash(pd.DataFrame({"a": ["b", "cd"]}))
    assert content_hash(one) != content_hash(pd.DataFrame({"ab": ["c", "d"]}))


def test_nan_payloads_do_not_count():
    odd = np.array([[0x7FF8_0000_0000_0001], [0xFFF8_0000_0000_0000]], dtype=np.uint64)
    assert content_hash(odd.view(np.float64)) == content_hash(np.full((2, 1), np.nan))
    half = np.array([[1.0], [0.0]]) * [[1.0], [np.nan]]
    payload = np.array([[1.0], [0.0]])
    payload[1:] = odd[:1].view(np.float64)
    assert content_hash(payload) == content_hash(half)
