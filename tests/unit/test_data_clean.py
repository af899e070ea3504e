import json
import logging

import numpy as np
import pandas as pd
import pytest

from cfc.data import DatasetSpec, describe
from cfc.data.clean import check_expected, clean_table, content_hash
from cfc.errors import DataError

SPEC = DatasetSpec.from_mapping(
    "small",
    {
        "title": "Small",
        "source": {"kind": "openml", "id": 5},
        "target": "class",
        "classes": ["no", "yes"],
        "missing_tokens": ["?"],
        "rename": {"V1": "age", "V2": 'job [a] <b> "c" {d}'},
        "recode": {"class": {"1": "no", "2": "yes"}},
        "drop": ["ID"],
        "fields": {
            "age": {"kind": "numeric", "markers": [-9]},
            'job [a] <b> "c" {d}': {"kind": "nominal", "unavailable": ["unknown"]},
        },
    },
)
JOB = 'job [a] <b> "c" {d}'


def raw(**columns):
    base = {
        "age": [1, -9, 3, 4, 5, 6],
        JOB: ["a", "b", "unknown", "a", "b", "a"],
        "class": ["no", "yes"] * 3,
    }
    return pd.DataFrame({**base, **columns})


def problems(table, spec=SPEC):
    with pytest.raises(DataError) as caught:
        clean_table(table, spec)
    return str(caught.value)


def test_plain_table_keeps_markers_and_order():
    table = clean_table(raw(), SPEC)
    assert list(table.columns) == ["age", JOB, "class"]
    assert table["age"].dtype == np.float64
    assert table["age"].tolist() == [1, -9, 3, 4, 5, 6]
    assert table[JOB].dtype == object
    assert table[JOB].tolist() == ["a", "b", "unknown", "a", "b", "a"]
    assert table["class"].tolist() == ["no", "yes"] * 3


def test_source_names_codes_quotes_blanks_and_missing():
    table = pd.DataFrame(
        {
            " V2": [" 'a b'", '" a b "', "?", "", None, "it's"],
            "Class": [1, 2, 1, 2, 1, 2],
            "ID": range(6),
            "V1": ["1", " 2.5 ", "", "?", None, "NaN"],
        }
    ).rename(columns={"Class": "class"})
    clean = clean_table(table, SPEC)
    assert clean[JOB].tolist() == ["a b", "a b", None, None, None, "it's"]
    assert clean["age"].tolist()[:2] == [1.0, 2.5]
    assert clean["age"].isna().tolist() == [False, False, True, True, True, True]
    assert clean["class"].tolist() == ["no", "yes"] * 3


@pytest.mark.parametrize(
    "ages",
    [
        pd.Series([1, -9, 3, 4, 5, 6], dtype="int8"),
        pd.Series([1, -9, 3, 4, 5, 6], dtype="float32"),
        pd.Series([1, -9, 3, 4, 5, 6], dtype="Int64"),
        pd.Series(["1", "-9", "3", "4", "5.0", "6e0"], dtype="category"),
        pd.Series(["1", "-9", "3", "4", "5", "6"], dtype="str"),
        pd.Series([1, -9, 3, 4, 5, 6], dtype="int64[pyarrow]"),
    ],
)
@pytest.mark.parametrize("kind", ["object", "str", "category", "string[pyarrow]"])
def test_column_backends_do_not_matter(ages, kind):
    table = raw(age=ages)
    table[JOB] = table[JOB].astype(kind)
    table["class"] = pd.Categorical(table["class"], categories=["yes", "unused", "no"])
    assert content_hash(clean_table(table, SPEC), SPEC) == content_hash(
        clean_table(raw(), SPEC), SPEC
    )


def test_nominal_numbers_become_text_without_a_point():
    table = clean_table(raw(**{JOB: [1.0, 2.0, 2.5, np.nan, 1.0, 7.0]}), SPEC)
    assert table[JOB].tolist() == ["1", "2", "2.5", None, "1", "7"]
    flags = clean_table(raw(**{JOB: [True, False] * 3}), SPEC)
    assert flags[JOB].tolist() == ["True", "False"] * 3
    octets = clean_table(raw(**{JOB: [b"a", b" b "] * 3}), SPEC)
    assert octets[JOB].tolist() == ["a", "b"] * 3


def test_all_problems_of_a_table_come_at_once():
    table = pd.DataFrame(
        {
            "agee": [1, 2, 3, 4, 5, 6],
            "notes": ["x"] * 6,
            JOB: ["a"] * 6,
            "class": ["no", "no", "maybe", None, "yes", "no"],
        }
    )
    message = problems(table)
    assert "data set small: 5 problems" in message
    assert "column 'age' (or 'V1', its name at the source) is missing" in message
    assert "the table has 'agee': is that it, renamed?" in message
    assert "column 'notes' is not declared; add it to drop" in message
    assert "1 row without a label (row 4)" in message
    assert "'maybe' (1 rows)" in message
    assert "class 'yes' has 1 row" in message


def test_numbers_that_are_none():
    assert "2 values that cannot be read as a number: 'x', '1_000' (rows 2, 5)" in problems(
        raw(age=["1", "x", "3", "4", "1_000", "6"])
    )
    assert "holds 2 infinite values (rows 1, 6)" in problems(raw(age=[np.inf, 1, 2, 3, 4, -np.inf]))
    assert "1 infinite value (row 2)" in problems(raw(age=["1", "inf", "3", "4", "5", "6"]))
    assert "complex" in problems(raw(age=[1j] * 6))
    assert "cannot be read as a number" in problems(raw(age=pd.date_range("2020", periods=6)))
    assert "cannot be read as a number" in problems(raw(age=[[1, 2]] * 6))


def test_repeated_columns():
    table = raw()
    twice = pd.concat([table, table[["age"]]], axis=1)
    assert "column 'age' occurs more than once" in problems(twice)
    both = table.assign(V1=1)
    assert "columns 'age' and 'V1' are both 'age'; keep one" in problems(both)


@pytest.mark.parametrize(
    ("labels", "part"),
    [
        (["no"] * 6, "every row has the same class 'no'"),
        (["no", "yes", "third"] * 2, "'third' (2 rows); the 2 declared classes are 'no', 'yes'"),
        (["no", "no", "no", "yes", "yes", ""], "1 row without a label (row 6)"),
        (["no"] * 4 + ["yes"] * 2, "class 'yes' has 2 rows"),
    ],
)
def test_bad_targets(labels, part):
    assert part in problems(raw(**{"class": labels}))


def test_missing_target_and_empty_table():
    assert "column 'class' is missing" in problems(raw().drop(columns="class"))
    assert "no rows" in problems(raw().iloc[:0])


def test_empty_and_constant_columns_only_warn(caplog):
    with caplog.at_level(logging.WARNING):
        table = clean_table(raw(age=[np.nan] * 6, **{JOB: ["a", None] * 3}), SPEC)
    assert table["age"].isna().all()
    assert "field 'age' has no value in any row" in caplog.text
    assert "holds one value only where it is not missing: 'a'" in caplog.text
    facts = describe(table, SPEC)
    assert len(facts["warnings"]) == 2
    json.dumps(facts, allow_nan=False)
    assert facts["fields"][0]["missing"] == 6
    assert facts["fields"][1]["levels"] == {"a": 3}


def test_expected_rows_and_counts():
    table = clean_table(raw(), SPEC)
    check_expected(table, SPEC, "here")
    entry = {
        "title": "Small",
        "source": {"kind": "openml", "id": 5},
        "target": "class",
        "classes": ["no", "yes"],
        "rows": 9,
        "class_counts": {"no": 3, "yes": 6},
        "fields": {"age": "numeric"},
    }
    other = DatasetSpec.from_mapping("small", entry)
    with pytest.raises(DataError) as caught:
        check_expected(table, other, "a.csv")
    message = str(caught.value)
    assert "data set small from a.csv" in message
    assert "6 rows, expected 9" in message
    assert "class 'yes': 3 rows, expected 6" in message
    assert "class 'no'" not in message


def test_hash_sees_content_and_only_content():
    table = clean_table(raw(), SPEC)
    base = content_hash(table, SPEC)
    assert len(base) == 64
    assert content_hash(table.copy(), SPEC) == base
    signed = table.assign(age=table["age"].where(table["age"] != 1, 0.0))
    negative = signed.assign(age=signed["age"].where(signed["age"] != 0, -0.0))
    assert content_hash(signed, SPEC) == content_hash(negative, SPEC) != base
    changed = [
        table.iloc[::-1],
        table.assign(age=table["age"].where(table["age"] != 3, np.nan)),
        table.assign(**{JOB: table[JOB].where(table[JOB] != "a", None)}),
        table.assign(**{JOB: table[JOB].replace("a", "aa")}),
        table.iloc[:5],
    ]
    hashes = {content_hash(t, SPEC) for t in changed}
    assert len(hashes) == len(changed)
    assert base not in hashes


# ---- indicator families

FAMILY = DatasetSpec.from_mapping(
    "forest",
    {
        "title": "Forest",
        "source": {"kind": "openml", "id": 6},
        "target": "class",
        "classes": ["1", "2"],
        "fields": {"height": "numeric", "soil": "nominal"},
        "indicator_families": {"soil": {"prefix": "Soil", "count": 3}},
    },
)


def forest(one, two, three, kind=int):
    return pd.DataFrame(
        {
            "height": range(6),
            "Soil1": pd.Series(one).astype(kind),
            "Soil2": pd.Series(two).astype(kind),
            "Soil3": pd.Series(three).astype(kind),
            "class": [1, 2] * 3,
        }
    )


@pytest.mark.parametrize("kind", ["int8", "float64", "bool", "str", "category"])
def test_indicators_are_decoded(kind):
    table = forest([1, 0, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1], kind)
    clean = clean_table(table, FAMILY)
    assert list(clean.columns) == ["height", "soil", "class"]
    assert clean["soil"].tolist() == ["1", "2", "3", None, "1", "3"]
    assert clean["class"].tolist() == ["1", "2"] * 3


def test_decoded_table_is_accepted_as_it_is():
    first = clean_table(forest([1, 0, 0, 0, 1, 0], [0, 1, 0, 1, 0, 0], [0, 0, 1, 0, 0, 1]), FAMILY)
    second = clean_table(first, FAMILY)
    assert content_hash(first, FAMILY) == content_hash(second, FAMILY)


def test_bad_indicators():
    good = [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1]
    assert "1 row with more than one 1 (row 2)" in problems(
        forest([1, 1, 0, 1, 1, 0], *good), FAMILY
    )
    assert "'Soil1' holds 1 value other than 0 and 1 (row 4)" in problems(
        forest([1, 0, 0, 7, 1, 0], *good), FAMILY
    )
    table = forest([1, 0, 0, 1, 1, 0], *good).drop(columns="Soil2")
    assert "column 'Soil2' is missing" in problems(table, FAMILY)
    one = forest([1, 0, 0, 1, 1, 0], *good).rename(columns={"Soil2": "Soil_2"})
    assert "the table has 'Soil_2': is that it, renamed?" in problems(one, FAMILY)
