"""Groups and baselines of one's own model, by hand."""

import json

import numpy as np
import pytest

from cfc.auditing.baseline import check_missing, named_baseline
from cfc.auditing.grouping import resolve_groups
from cfc.baselines import Coordinate
from cfc.errors import ConfigError, DataError, GroupError

# age is a number with an indicator of absence, job one-hot with two levels, town a code
COORDINATES = [
    Coordinate("f0", "age", "value"),
    Coordinate("f1", "age", "indicator", "missing", True),
    Coordinate("f2", "job", "level", "nurse"),
    Coordinate("f3", "job", "level", "smith"),
    Coordinate("f4", "town", "code"),
]
COLUMNS = ("age", "job", "town", "name")  # name reaches no coordinate
NAN = np.nan


def members(groups):
    return {name: index.tolist() for name, index in groups}


def test_every_raw_column_is_a_group_by_default():
    groups = resolve_groups(None, COORDINATES, COLUMNS)
    assert members(groups) == {"age": [0, 1], "job": [2, 3], "town": [4]}
    assert groups.label == "raw_origin"


def test_a_mapping_of_columns_and_its_file(tmp_path):
    spec = {"person": ["age", "job"], "place": "town"}
    expected = {"person": [0, 1, 2, 3], "place": [4]}
    assert members(resolve_groups(spec, COORDINATES, COLUMNS)) == expected
    (tmp_path / "g.json").write_text(json.dumps(spec))
    (tmp_path / "g.yaml").write_text("person: [age, job]\nplace: [town]\n")
    for name in ("g.json", "g.yaml"):
        assert members(resolve_groups(tmp_path / name, COORDINATES, COLUMNS)) == expected


def test_lists_of_coordinates_are_named_by_what_they_hold():
    groups = resolve_groups([[0, 1], [2, 3], [4]], COORDINATES, COLUMNS)
    assert list(members(groups).values()) == [[0, 1], [2, 3], [4]]
    groups = resolve_groups([["age", "town"], ["job"]], COORDINATES, COLUMNS)
    assert members(groups) == {"age + town": [0, 1, 4], "job": [2, 3]}


def test_a_column_the_model_never_looks_at_may_be_named():
    groups = resolve_groups({"all": ["age", "job", "town", "name"]}, COORDINATES, COLUMNS)
    assert members(groups) == {"all": [0, 1, 2, 3, 4]}
    with pytest.raises(GroupError, match="'ids' holds no column that reaches the model"):
        resolve_groups({"a": ["age", "job", "town"], "ids": ["name"]}, COORDINATES, COLUMNS)


def test_what_is_left_over_has_to_be_decided():
    with pytest.raises(GroupError, match=r'2 column\(s\) are in no group: job, town; .*"each"'):
        resolve_groups({"a": ["age"]}, COORDINATES, COLUMNS)
    each = resolve_groups({"a": ["age"]}, COORDINATES, COLUMNS, "each")
    assert members(each) == {"a": [0, 1], "job": [2, 3], "town": [4]}
    fixed = resolve_groups({"a": ["age"]}, COORDINATES, COLUMNS, "fixed")
    assert members(fixed) == {"a": [0, 1]}
    assert fixed.fixed.tolist() == [2, 3, 4]
    torn = resolve_groups({"a": [0, 2]}, COORDINATES, COLUMNS, "each")
    assert members(torn) == {"a": [0, 2], "age (rest)": [1], "job (rest)": [3], "town": [4]}


MIXED = [("age",), (), ("age", "income"), ("job",)]


def mixed(spec, ungrouped="error"):
    coordinates = [Coordinate(f"f{i}", " + ".join(o), "value") for i, o in enumerate(MIXED)]
    return resolve_groups(spec, coordinates, ("age", "income", "job"), ungrouped, MIXED)


def test_columns_that_share_a_coordinate_belong_together_and_constants_nowhere():
    for spec in (None, {"a": ["age"], "b": ["income"], "c": ["job"]}):
        with pytest.raises(GroupError, match="'age', 'income' cannot be separate groups: they"):
            mixed(spec)
    groups = mixed({"a": ["age", "income"], "c": ["job"]})
    assert members(groups) == {"a": [0, 2], "c": [3]}
    assert groups.fixed.tolist() == [1]
    with pytest.raises(GroupError, match="cannot be separate groups"):
        mixed({"c": ["job"]}, "each")
    assert mixed({"c": ["job"]}, "fixed").fixed.tolist() == [0, 1, 2]


def test_a_block_whose_most_frequent_level_was_dropped_stays_off():
    rows = np.array([[1.0, 0], [0, 0], [0, 0], [0, 1.0], [0, 0]])
    levels = [Coordinate(f"f{i}", "job", "level", name) for i, name in enumerate("ab")]
    assert named_baseline("mode", rows, levels, np.zeros(2, bool)).tolist() == [0, 0]
    assert named_baseline("mode", rows[[0, 0, 1]], levels, np.zeros(2, bool)).tolist() == [1, 0]


def test_every_problem_is_named_at_once():
    with pytest.raises(GroupError) as caught:
        resolve_groups({"a": ["age", "jbo"], "b": ["age", 7], "c": []}, COORDINATES, COLUMNS)
    text = str(caught.value)
    for part in (
        "'a' names unknown column 'jbo'; nearest known: job",
        "column 'age' is in group 'a' and in group 'b'",
        "group 'b' names coordinate 7, outside 0..4",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("g.json", "{", "not valid JSON"),
        ("g.yaml", "a: [", "not valid YAML"),
        ("g.yaml", "5", "must hold a mapping of names to lists, or a list"),
        ("gone.yaml", None, "cannot be read: No such file"),
    ],
)
def test_a_groups_file_that_cannot_be_used(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        resolve_groups(tmp_path / name, COORDINATES, COLUMNS)


def test_unknown_choice_for_the_rest():
    with pytest.raises(ConfigError, match="ungrouped='all' is unknown; one of error, each, fixed"):
        resolve_groups(None, COORDINATES, COLUMNS, "all")


Z = np.array(
    [
        # age, absent?, nurse, smith, town
        [20.0, 0, 1, 0, 2.0],
        [40.0, 0, 0, 1, 2.0],
        [NAN, 1, 0, 1, 0.0],
        [60.0, 0, 0, 1, NAN],
    ]
)
TAKES = np.array([True, False, False, False, True])


def test_mean_off_averages_numbers_switches_levels_off_and_takes_the_usual_code():
    vector = named_baseline("mean_off", Z, COORDINATES, TAKES)
    assert vector.tolist() == [40.0, 0, 0, 0, 2.0]


def test_mode_prefers_absence_for_a_code_that_can_be_absent():
    vector = named_baseline("mode", Z, COORDINATES, TAKES)
    assert vector[:4].tolist() == [40.0, 0, 0, 1]  # smith is the usual job
    assert np.isnan(vector[4])
    assert named_baseline("mode", Z, COORDINATES, TAKES & False)[4] == 2.0


def test_without_codes_every_baseline_of_the_paper_exists():
    rows, coordinates = Z[:, :4], COORDINATES[:4]
    assert named_baseline("mean", rows, coordinates, TAKES).tolist() == [40.0, 0.25, 0.25, 0.75]
    assert named_baseline("median", rows, coordinates, TAKES).tolist() == [40.0, 0, 0, 1]
    assert named_baseline("zero", rows, coordinates, TAKES).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ["mean", "median", "zero"])
def test_a_category_has_no_average(name):
    with pytest.raises(ConfigError, match=rf'"{name}" does not exist for nominal columns \(town\)'):
        named_baseline(name, Z, COORDINATES, TAKES)


def test_a_column_without_any_value_has_no_average():
    empty = Z.copy()
    empty[:, 0] = NAN
    with pytest.raises(DataError, match="'age' has no value in the background"):
        named_baseline("mean_off", empty, COORDINATES, TAKES & False)
    assert np.isnan(named_baseline("mean_off", empty, COORDINATES, TAKES)[0])


def test_absence_the_model_never_saw_is_refused():
    vector = np.array([NAN, 0, 0, 0, NAN])
    check_missing(vector, COORDINATES, TAKES)
    with pytest.raises(ConfigError, match=r"absent \(NaN\) for age, but the model never saw"):
        check_missing(vector, COORDINATES, np.array([False, False, False, False, True]))
