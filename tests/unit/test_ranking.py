"""Ranking scores: names, both signs, hand numbers."""

import math

import numpy as np
import pytest

from cfc.ranking import SCORES, ranking_scores
from cfc.scores import confidence_scores

CONFIDENCE = ("max_softmax", "entropy", "margin", "negative_energy")


@pytest.fixture
def inputs():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=20)
    return {
        "proba": proba,
        "margin": rng.random(20),
        "delta": rng.normal(size=(20, 4)),
        "rcma": rng.random(20),
        "u": rng.random(20),
        "predicted": proba.argmax(axis=1),
        "baseline_label": 1,
    }


def test_names_and_kinds():
    assert [s.name for s in SCORES] == [
        *CONFIDENCE, "rcma", "fds", "one_step_relative", "one_step_sum", "baseline_class",
    ]  # fmt: skip
    assert [s.kind for s in SCORES] == ["confidence"] * 4 + ["certificate"] * 2 + ["ours"] * 3
    assert all(s.title for s in SCORES)


def test_columns_are_scores_by_signs(inputs):
    found = ranking_scores(**inputs)
    assert list(found) == [f"{s.name}_{sign}" for s in SCORES for sign in ("paper", "risk")]
    assert all(v.shape == (20,) and v.dtype == np.float64 for v in found.values())


def test_signs(inputs):
    found = ranking_scores(**inputs)
    for score in SCORES:
        paper, risk = found[f"{score.name}_paper"], found[f"{score.name}_risk"]
        assert np.array_equal(paper, -risk if score.kind == "confidence" else risk)
    # under risk the least certain row comes first, whatever the score
    for name in CONFIDENCE:
        certain = np.vstack([[0.98, 0.01, 0.01], [0.4, 0.35, 0.25]])
        two = {k: v[:2] if isinstance(v, np.ndarray) else v for k, v in inputs.items()}
        found = ranking_scores(**{**two, "proba": certain})
        assert found[f"{name}_risk"][1] > found[f"{name}_risk"][0], name
        assert found[f"{name}_paper"][0] > found[f"{name}_paper"][1], name


def test_paper_sign_is_the_formula_but_for_entropy(inputs):
    found, formulas = ranking_scores(**inputs), confidence_scores(inputs["proba"])
    for name in ("max_softmax", "margin", "negative_energy"):
        assert np.array_equal(found[f"{name}_paper"], formulas[name])
    assert np.array_equal(found["entropy_paper"], -formulas["entropy"])


def test_two_classes_make_the_four_confidence_scores_one():
    p = np.random.default_rng(1).permutation(np.linspace(0.5, 0.999, 400))
    n = len(p)
    found = ranking_scores(
        proba=np.stack([1 - p, p], axis=1),
        margin=np.ones(n),
        delta=np.ones((n, 1)),
        rcma=np.ones(n),
        u=np.ones(n),
        predicted=np.ones(n),
        baseline_label=0,
    )
    order = np.argsort(p)
    for name in CONFIDENCE:
        assert (np.diff(found[f"{name}_paper"][order]) > 0).all(), name
        assert (np.diff(found[f"{name}_risk"][order]) < 0).all(), name


def test_three_classes_do_not():
    proba = np.array([[0.6, 0.39, 0.01], [0.55, 0.225, 0.225]])
    found = confidence_scores(proba)
    assert found["max_softmax"][0] > found["max_softmax"][1]
    assert found["margin"][0] < found["margin"][1]


def test_cheap_scores_by_hand():
    found = ranking_scores(
        proba=np.array([[0.2, 0.8], [0.9, 0.1]]),
        margin=np.array([math.log(4), math.log(9)]),
        delta=np.array([[0.5, 2.0, -1.0], [-3.0, -2.0, -1.0]]),
        rcma=np.array([0.3, 0.4]),
        u=np.array([40.0, 50.0]),
        predicted=np.array([1, 0]),
        baseline_label=np.array([0, 0]),
    )
    assert found["one_step_relative_risk"] == pytest.approx([2 / math.log(4), -1 / math.log(9)])
    # the sum counts losses only, the largest drop is taken as it is
    assert found["one_step_sum_risk"] == pytest.approx([4.5 / math.log(4), -1 / math.log(9)])
    assert found["baseline_class_risk"].tolist() == [1, 0]
    assert found["rcma_paper"].tolist() == [0.3, 0.4]
    # FDS itself would be 1.0 twice
    assert found["fds_paper"].tolist() == [40, 50]


def test_margin_of_zero_stays_finite(inputs):
    found = ranking_scores(**{**inputs, "margin": np.zeros(20)})
    assert all(np.isfinite(v).all() for v in found.values())
