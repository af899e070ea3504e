"""The five baselines by hand."""

import numpy as np
import pytest

from cfc.baselines import Coordinate, baseline_vectors
from cfc.protocol import BASELINES


def coordinate(field, kind, level=None, missing=False):
    return Coordinate("f0000", field, kind, level, missing)


COORDINATES = [
    coordinate("age", "value"),
    coordinate("age", "indicator", "missing", True),
    coordinate("job", "level", "cook"),
    coordinate("job", "level", "nurse"),
    coordinate("job", "level", "missing", True),
    coordinate("town", "level", "x"),
    coordinate("town", "level", "y"),
]
X = np.array(
    [
        [-1.0, 0, 1, 0, 0, 0, 1],
        [0.0, 0, 0, 1, 0, 1, 0],
        [5.0, 0, 0, 1, 0, 0, 1],
        [8.0, 1, 0, 0, 1, 1, 0],
    ],
    dtype=np.float32,
)
EXPECTED = {
    "mean": [3, 0.25, 0.25, 0.5, 0.25, 0.5, 0.5],
    "mean_off": [3, 0, 0, 0, 0, 0, 0],
    "median": [2.5, 0, 0, 0.5, 0, 0.5, 0.5],
    "zero": [0] * 7,
    # job: the missing token though nurse is more frequent; town: a tie, so the first level
    "mode": [2.5, 0, 0, 0, 1, 1, 0],
}


@pytest.mark.parametrize("name", BASELINES)
def test_by_hand(name):
    assert baseline_vectors(X, COORDINATES)[name].tolist() == EXPECTED[name]


def test_all_of_them_in_order():
    vectors = baseline_vectors(X, COORDINATES)
    assert tuple(vectors) == BASELINES == ("mean", "mean_off", "median", "zero", "mode")
    assert all(v.dtype == np.float32 and v.shape == (7,) for v in vectors.values())


def test_mode_takes_the_most_frequent_level_without_a_missing_token():
    mode = baseline_vectors(X[:3], COORDINATES)["mode"]
    assert mode[5:].tolist() == [0, 1]


def test_means_of_many_rows_do_not_drift():
    # float32 sums of a million rows would stop at 2**24
    column = np.full((1_000_000, 1), 0.1, dtype=np.float32)
    found = baseline_vectors(column, [coordinate("x", "value")])["mean"]
    assert found[0] == np.float32(0.1)


def test_readable_names():
    assert COORDINATES[0].name == "age"
    assert COORDINATES[2].name == "job = cook"
