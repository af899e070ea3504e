"""Evidence groups: a partition or a message that names all that is wrong."""

import numpy as np
import pytest

from cfc.errors import GroupError
from cfc.groups import Groups, merge_redundant

ODD = ["a[0]", "<b>", 'say "c"', "d e ", "{f}", "it's", "é, ü", "a\tb", ""]


def test_a_partition_keeps_names_order_and_indices():
    groups = Groups(("b", "a"), ([3, 1], [0, 2]), 4, "mine")
    assert len(groups) == 2
    assert groups.names == ("b", "a")
    assert [index.tolist() for index in groups.indices] == [[1, 3], [0, 2]]
    assert [(name, index.tolist()) for name, index in groups] == [("b", [1, 3]), ("a", [0, 2])]
    assert groups.of_coordinate.tolist() == [1, 0, 1, 0]
    assert groups.label == "mine"


def test_every_problem_is_named_at_once():
    with pytest.raises(GroupError) as caught:
        Groups(("a", "b", "c", "b"), ([0, 1], [1, 2], [], [9, -1]), 6)
    message = str(caught.value)
    for part in (
        "'b' is used more than once",
        "coordinate 1 is in group 'a' and in group 'b'",
        "group 'c' is empty",
        "coordinate 9, outside 0..5",
        "coordinate -1, outside 0..5",
        "3 coordinate(s) are in no group: 3, 4, 5",
    ):
        assert part in message


def test_names_must_match_and_exist():
    with pytest.raises(GroupError, match="1 names for 2 groups"):
        Groups(("a",), ([0], [1]), 2)
    with pytest.raises(GroupError, match="no group is declared"):
        Groups((), (), 0)


def test_long_gaps_are_shortened():
    with pytest.raises(GroupError, match=r"99 coordinate\(s\) are in no group: 1, 2, .*10 \.\.\."):
        Groups(("a",), ([0],), 100)


FIELDS = {"age": [0], "job": [1, 2, 3], "pay": [4, 5]}


def test_groups_of_fields():
    groups = Groups.of_fields({"money": ["pay", "job"], "person": ["age"]}, FIELDS, 6)
    assert groups.names == ("money", "person")
    assert [index.tolist() for index in groups.indices] == [[1, 2, 3, 4, 5], [0]]
    assert groups.label == "domain"


def test_every_problem_of_fields_is_named_at_once():
    with pytest.raises(GroupError) as caught:
        Groups.of_fields({"x": ["age", "jbo"], "y": ["age"], "z": []}, FIELDS, 6)
    message = str(caught.value)
    for part in (
        "group 'x' names unknown column 'jbo'; nearest known: job",
        "column 'age' is in group 'x' and in group 'y'",
        "group 'z' is empty",
        "column 'job' is in no group",
        "column 'pay' is in no group",
    ):
        assert part in message


def test_a_field_twice_in_one_group_is_refused():
    with pytest.raises(GroupError, match="'age' is in group 'x' and in group 'x'"):
        Groups.of_fields({"x": ["age", "age", "job", "pay"]}, FIELDS, 6)


def test_odd_names_are_names_like_any_other():
    fields = {name: [i] for i, name in enumerate(ODD)}
    groups = Groups.of_fields({name: [name] for name in ODD}, fields, len(ODD))
    assert groups.names == tuple(ODD)
    with pytest.raises(GroupError, match=r"unknown column '<b >'"):
        Groups.of_fields({**{name: [name] for name in ODD}, "x": ["<b >"]}, fields, len(ODD))


def test_merging_by_hand():
    fields = ["a", "b", "c", "d", "e"]
    association = {
        ("a", "b"): 0.1,
        ("a", "c"): 0.8,  # at the threshold: linked
        ("c", "e"): 0.95,  # and so a with e, through c
        ("a", "e"): 0.2,
        ("b", "d"): 0.7999,
    }
    assert merge_redundant(association, fields) == {
        "a + c + e": ["a", "c", "e"],
        "b": ["b"],
        "d": ["d"],
    }
    assert merge_redundant(association, fields, threshold=0.96) == {f: [f] for f in fields}
    assert list(merge_redundant(association, fields, threshold=0.1)) == ["a + b + c + d + e"]


def test_merging_does_not_depend_on_the_order_of_pairs():
    rng = np.random.default_rng(0)
    fields = [f"f{i}" for i in range(12)]
    pairs = [(a, b) for i, a in enumerate(fields) for b in fields[i + 1 :]]
    values = rng.random(len(pairs))
    expected = merge_redundant(dict(zip(pairs, values, strict=True)), fields, 0.85)
    for _ in range(5):
        order = rng.permutation(len(pairs))
        shuffled = {pairs[i][:: rng.choice([-1, 1])]: values[i] for i in order}
        found = merge_redundant(shuffled, fields, 0.85)
        assert found == expected
        assert list(found) == list(expected)
