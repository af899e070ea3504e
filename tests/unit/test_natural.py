"""Observed unavailability: events counted by hand, replaced groups, draws, labels, metrics."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from synthetic_units import make_unit

from cfc.artifacts import lists_to_matrix
from cfc.data.registry import DatasetSpec
from cfc.errors import ArtifactError, DataError
from cfc.evaluate import EvaluationSettings
from cfc.groups import Groups
from cfc.natural import (
    Patterns,
    draw_patterns,
    natural_stress,
    observed_patterns,
    replaced_groups,
    unavailable_cells,
)
from cfc.stages.natural import (
    NOT_ELIGIBLE,
    RULES,
    evaluate_natural,
    natural_labels,
    natural_unit,
    patterns_of,
)

ENTRY = {
    "title": "toy",
    "source": {"kind": "file", "path": "toy.csv"},
    "target": "y",
    "classes": ["a", "b"],
    "fields": {
        "debt": {"kind": "numeric", "markers": [-9, -8]},
        "job": {"kind": "nominal", "unavailable": ["unknown"]},
        "age": "numeric",
        "code": "numeric",
        "town": "nominal",
    },
    "unavailable_codes": {"code": [0]},
}
SPEC = DatasetSpec.from_mapping("toy", ENTRY)


def table():
    # unavailable: debt in rows 0, 1, 4; job in 1, 4; code in 3; town in 5; rows 2 and 6 none
    return pd.DataFrame(
        {
            "debt": [-9.0, -8.0, 1.0, 2.0, -9.0, 3.0, 0.0],
            "job": ["cook", "unknown", "cook", "cook", "unknown", "cook", "unknown?"],
            "age": [1.0, 2.0, -9.0, 0.0, 5.0, 6.0, 7.0],
            "code": [1.0, 1.0, 2.0, 0.0, 3.0, 1.0, 1.0],
            "town": ["x", "y", "x", "y", "x", None, "y"],
        }
    )


def test_cells_follow_the_declaration_only():
    fields, cells = unavailable_cells(table(), SPEC)
    # age has no marker: its −9 and 0 are values
    assert fields == ("debt", "job", "code", "town")
    assert cells.astype(int).tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 1, 0],
        [1, 1, 0, 0],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
    ]


def test_events_are_the_counted_patterns_without_the_complete_rows():
    patterns = observed_patterns(*unavailable_cells(table(), SPEC))
    found = {
        tuple(f for f, gone in zip(patterns.fields, row, strict=True) if gone): int(n)
        for row, n in zip(patterns.missing, patterns.count, strict=True)
    }
    assert found == {("debt", "job"): 2, ("debt",): 1, ("code",): 1, ("town",): 1}
    assert patterns.count[0] == 2  # most frequent first
    assert patterns.share.tolist() == [0.4, 0.2, 0.2, 0.2]
    assert patterns.n_rows == 7


def test_patterns_equal_a_count_by_pandas():
    rng = np.random.default_rng(3)
    cells = rng.random((500, 4)) < [0.3, 0.1, 0.5, 0.05]
    patterns = observed_patterns("abcd", cells)
    counted = pd.DataFrame(cells, columns=list("abcd")).value_counts()
    counted = counted.drop(index=(False,) * 4)
    assert len(patterns) == len(counted)
    for row, n in zip(patterns.missing, patterns.count, strict=True):
        assert counted[tuple(bool(v) for v in row)] == n
    assert (np.diff(patterns.count) <= 0).all()


def test_a_table_without_markers_has_no_event():
    spec = DatasetSpec.from_mapping(
        "toy", {**ENTRY, "fields": {"age": "numeric"}, "unavailable_codes": {}}
    )
    assert len(observed_patterns(*unavailable_cells(table(), spec))) == 0


COORDINATES = ["debt", "debt", "job", "job", "age", "code", "town"]


def test_an_event_replaces_each_group_that_holds_a_missing_field():
    patterns = observed_patterns(*unavailable_cells(table(), SPEC))
    # a domain block (money: debt and age) goes whole
    groups = Groups(("money", "job", "rest"), ([0, 1, 4], [2, 3], [5, 6]), 7)
    replaced = replaced_groups(patterns, groups, COORDINATES)
    expected = {
        (1, 1, 0, 0): [1, 1, 0],
        (1, 0, 0, 0): [1, 0, 0],
        (0, 0, 1, 0): [0, 0, 1],
        (0, 0, 0, 1): [0, 0, 1],
    }
    for row, hit in zip(patterns.missing.astype(int), replaced.astype(int), strict=True):
        assert hit.tolist() == expected[tuple(row.tolist())]


def test_a_field_without_a_column_is_refused():
    patterns = Patterns(("gone",), np.array([[True]]), np.array([1]), 1)
    with pytest.raises(DataError, match="'gone' has no column"):
        replaced_groups(patterns, Groups(("a",), ([0],), 1), ["other"])


def test_draws_follow_the_shares_and_the_case_alone():
    share = np.array([0.7, 0.2, 0.1])
    ids = np.arange(4000)
    drawn = draw_patterns(share, seed=5, case_ids=ids, draws=5)
    seen = np.bincount(drawn.ravel(), minlength=3) / drawn.size
    assert np.abs(seen - share).max() < 0.015  # 3.5 standard errors of 20,000 draws
    some = draw_patterns(share, seed=5, case_ids=ids[[7, 3]], draws=2)
    assert (some == drawn[[7, 3], :2]).all()
    assert (draw_patterns(share, seed=6, case_ids=ids, draws=5) != drawn).any()


def _linear(X):
    p = 1 / (1 + np.exp(-(X.astype(np.float64) @ np.array([2.0, 1.0]))))
    return np.stack([1 - p, p], axis=1)


def test_stress_equals_the_states_built_by_hand():
    X = np.array([[2.0, 1.0], [1.5, -0.5]], dtype=np.float32)
    groups = Groups(("a", "b"), ([0], [1]), 2)
    replaced = np.array([[True, False], [True, True]])
    found = natural_stress(
        X,
        groups,
        np.array([-1.0, 0.0]),
        _linear,
        np.array([0.5, 0.5]),
        replaced,
        seed=1,
        case_ids=np.array([10, 11]),
        draws=4,
        chunk_bytes=1,
    )
    assert found.predicted.tolist() == [1, 1]
    assert found.margin == pytest.approx([5.0, 2.5])  # the log-odds
    by_hand = {(0, 0): -2 + 1, (0, 1): -2 + 0, (1, 0): -2 - 0.5, (1, 1): -2 + 0}
    for case in range(2):
        for draw in range(4):
            value = by_hand[case, int(found.pattern[case, draw])]
            assert found.margins[case, draw] == pytest.approx(value, abs=1e-5)
            assert found.labels[case, draw] == 0
    assert found.rows == 2 * (1 + 4)


def test_labels_by_hand():
    certificates = pa.table(
        {"case_id": [1, 2, 3, 4, 5], "is_confident": [True, True, False, True, True]}
    )
    stressed = pa.table(
        {
            "case_id": [1, 2, 4, 5],
            "confidence": [0.95, 0.95, 0.87, 0.95],
            "predicted": np.array([0, 0, 0, 0], dtype=np.int16),
            "margin": [2.0, 2.0, 2.0, 2.0],
            # 1: one collapse by half in the second draw; 2: a flip in the last draw only;
            # 4: below tau_p; 5: half of all draws flip
            "margins": [
                [2.0, 0.99, 2.0, 2.0],
                [2.0, 2.0, 2.0, -0.1],
                [-1.0] * 4,
                [1.9, 1.9, -0.1, -0.1],
            ],
            "labels": pa.array(
                [[0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 1, 1]], pa.list_(pa.int16())
            ),
        }
    )
    labels = natural_labels(
        certificates, stressed, literal_draws=3, tau_p=0.9, tau_kappa=0.5, tau_flip=0.5
    )
    assert labels["literal"].to_pylist() == [True, False, False, False, True]
    assert labels["expected"].to_pylist() == [False, False, False, False, True]
    with pytest.raises(ArtifactError, match="rerun natural"):
        natural_labels(
            certificates, stressed.slice(1), literal_draws=3, tau_p=0.9, tau_kappa=0.5, tau_flip=0.5
        )


class _Model:
    def predict_proba(self, X):
        return _linear(X)


class _Prepared:
    """The parts of `cfc.prepared.Prepared` the stage uses."""

    def __init__(self):
        self.X = np.array([[2, 1], [2, 1], [3, 1], [4, 1], [1, 1], [2, 2], [3, 3]], np.float32)
        self.split = np.array(["train"] * 4 + ["test"] * 3, dtype=object)
        self.row_id = np.arange(7)
        self.groups = Groups(("debt", "job"), ([0], [1]), 2)
        self.facts = {"coordinates": [{"field": "debt"}, {"field": "job"}]}

    def rows(self, split):
        return np.flatnonzero(self.split == split)

    def baseline(self, name):
        return np.array([-3.0, 0.0])


def _certificates(ids):
    n = len(ids)
    return pa.table(
        {
            "dataset": ["toy"] * n,
            "model": ["lr"] * n,
            "seed": [0] * n,
            "case_id": ids,
            "confidence": [0.99] * n,
            "is_confident": [True] * n,
        }
    )


def test_stage_uses_train_rows_only_and_says_what_the_events_were():
    spec = DatasetSpec.from_mapping(
        "toy",
        {
            **ENTRY,
            "fields": {k: ENTRY["fields"][k] for k in ("debt", "job")},
            "unavailable_codes": {},
        },
    )
    assert patterns_of(table(), spec, _Prepared()).count.tolist() == [1, 1]  # rows 0 and 1
    found, facts = natural_unit(
        table(),
        spec,
        _Prepared(),
        _Model(),
        _certificates([4, 5, 6]),
        draws=6,
        baseline="mean",
        clip=1e-12,
        seed=0,
    )
    assert facts["is_eligible"]
    assert [p["groups"] for p in facts["patterns"]] == [["debt"], ["debt", "job"]]
    assert facts["train_rows"] == 4
    assert lists_to_matrix(found["labels"]).tolist() == [[0] * 6] * 3
    with pytest.raises(ArtifactError, match="rerun preprocess"):
        patterns_of(table().iloc[:3], spec, _Prepared())


def test_stage_without_events_and_its_metrics_say_so():
    spec = DatasetSpec.from_mapping(
        "toy", {**ENTRY, "fields": {"age": "numeric"}, "unavailable_codes": {}}
    )
    empty, facts = natural_unit(
        table(),
        spec,
        _Prepared(),
        _Model(),
        _certificates([4, 5, 6]),
        draws=6,
        baseline="mean",
        clip=1e-12,
        seed=0,
    )
    assert len(empty) == 0
    assert not facts["is_eligible"]
    _, certificates, _, ranks = make_unit("toy", "lr", 0)
    metrics = evaluate_natural(
        certificates,
        empty,
        ranks,
        is_eligible=False,
        thresholds={"literal_draws": 3, "tau_p": 0.9, "tau_kappa": 0.5, "tau_flip": 0.5},
        settings=EvaluationSettings(label_rules=RULES),
        unit=("toy", "lr", 0),
    ).to_pandas()
    assert len(metrics)
    assert metrics["value"].isna().all()
    assert set(metrics["reason"]) == {NOT_ELIGIBLE}


def test_events_of_a_real_data_set(shared_data, repository):
    import yaml

    from cfc.data.clean import clean_table

    registry = yaml.safe_load((repository / "config/datasets.yaml").read_text())
    spec = DatasetSpec.from_mapping("heloc", registry["dataset_registry"]["heloc"])
    raw = pd.read_parquet(shared_data / "heloc.parquet")
    patterns = observed_patterns(*unavailable_cells(clean_table(raw, spec), spec))
    everything = patterns.missing.all(axis=1)
    # data dictionary and README of the data: 588 rows without any bureau record
    assert patterns.count[everything].tolist() == [588]
    marked = raw[list(spec.field_names)].isin([-7, -8, -9]).any(axis=1).sum()
    assert patterns.count.sum() == marked
