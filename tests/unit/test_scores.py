"""Scores of one prediction: hand numbers, and the brute-force formulas."""

import math

import numpy as np
import pytest
from unit import reference_cfc as reference

from cfc import scores


def random_probabilities(seed, classes, n=50):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(classes, 0.3), size=n)
    proba[0], proba[1] = np.eye(classes)[1], 1 / classes
    return proba


def test_two_classes_by_hand():
    found = scores.confidence_scores(np.array([[0.2, 0.8]]))
    assert found["max_softmax"] == pytest.approx([0.8])
    assert found["entropy"] == pytest.approx([0.5004024235])
    assert found["margin"] == pytest.approx([math.log(4)])
    # z = ±log(4)/2, so log(2 + 1/2)
    assert found["negative_energy"] == pytest.approx([math.log(2.5)])
    assert scores.pseudo_logits(np.array([[0.2, 0.8]]))[0] == pytest.approx(
        [-math.log(2), math.log(2)]
    )


def test_three_classes_by_hand():
    found = scores.confidence_scores(np.array([[0.5, 0.25, 0.25]]))
    assert found["entropy"] == pytest.approx([1.5 * math.log(2)])
    assert found["margin"] == pytest.approx([math.log(2)])
    # centre: -5/3 log 2; z = 2/3, -1/3, -1/3 of log 2
    assert found["negative_energy"] == pytest.approx([math.log(2 ** (2 / 3) + 2 * 2 ** (-1 / 3))])


def test_margins_by_hand():
    p = np.array([[0.6, 0.3, 0.1]])
    for own, expected in enumerate((math.log(2), math.log(0.5), math.log(1 / 6))):
        assert scores.margin_of(p, [own]) == pytest.approx([expected])
    assert scores.margin_of(np.array([[0.5, 0.5]]), [0]).tolist() == [0]


def test_clip_by_hand():
    p = np.array([[0.0, 1.0]])
    assert scores.clip_probabilities(p)[0] == pytest.approx([1e-12 / (1 + 1e-12), 1 / (1 + 1e-12)])
    assert scores.margin_of(p, [1]) == pytest.approx([12 * math.log(10)])
    assert scores.clip_probabilities(p, 0.01)[0] == pytest.approx([1 / 101, 100 / 101])
    assert scores.margin_of(p, [1], 0.01) == pytest.approx([math.log(100)])


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("clip", [1e-12, 1e-3])
def test_equal_to_brute_force(classes, clip):
    proba = random_probabilities(classes, classes)
    found = scores.confidence_scores(proba, clip)
    labels = scores.predicted_label(proba)
    own = np.random.default_rng(0).integers(classes, size=len(proba))
    margins = scores.margin_of(proba, own, clip)
    logits = scores.pseudo_logits(proba, clip)
    for row, p in enumerate(proba.tolist()):
        for name, value in reference.confidence_scores(p, clip).items():
            assert found[name][row] == pytest.approx(value, rel=1e-9, abs=1e-9), name
        assert labels[row] == reference.label_of(p)
        assert margins[row] == pytest.approx(reference.margin_of(p, own[row], clip), abs=1e-9)
        assert logits[row] == pytest.approx(reference.pseudo_logits(p, clip), abs=1e-9)


def test_ties_go_to_the_lowest_class():
    p = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [1 / 3] * 3])
    assert scores.predicted_label(p).tolist() == [0, 1, 0]
    assert scores.predicted_label(p).dtype == np.int16


def test_saturation_flags_the_clip():
    p = np.array([[0, 1], [1e-12, 1], [2e-12, 1], [0.5, 0.5]])
    assert scores.is_saturated(p).tolist() == [True, True, False, False]
    assert scores.is_saturated(p, 0.5).all()


def test_collapse_by_hand():
    # loss, none, gain, and a flip: the margin lost is more than there was
    found = scores.relative_collapse(np.float64(2), np.array([1.0, 2.0, 3.0, -2.0]))
    assert found == pytest.approx([0.5, 0, 0, 2])
    # no margin at all: the ε of eq. 8 keeps it finite
    assert scores.relative_collapse(0.0, np.array([-1.0])) == pytest.approx([1e8])


def test_half_precision_and_float32_are_raised_to_float64():
    p = np.float32([[0.1, 0.9]])
    assert scores.margin_of(p, [1]).dtype == np.float64
    assert scores.clip_probabilities(p).dtype == np.float64
    assert p.dtype == np.float32


def test_inputs_are_left_alone():
    p = random_probabilities(1, 3)
    before = p.copy()
    scores.margin_of(p, np.zeros(len(p), int))
    scores.confidence_scores(p)
    assert (p == before).all()
