"""Metrics against scikit-learn, brute force over orders of ties, and hand cases."""

from itertools import pairwise, permutations

import numpy as np
import pytest
from sklearn import metrics as reference

from cfc import metrics
from cfc.errors import DataError


def _tied_problem(seed, n=60, levels=7):
    rng = np.random.default_rng(seed)
    score = rng.integers(levels, size=n).astype(float)
    label = rng.random(n) < 0.2 + 0.08 * score
    return score, label


def _probabilities(seed, n=200, classes=3):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(classes), size=n)
    label = np.array([rng.choice(classes, p=p) for p in proba])
    return proba, label


@pytest.mark.parametrize("seed", range(5))
def test_auroc_equals_scikit_learn_with_ties(seed):
    score, label = _tied_problem(seed)
    assert metrics.auroc(score, label) == pytest.approx(
        reference.roc_auc_score(label, score), abs=1e-12
    )


def test_auroc_by_hand():
    # pairs (positive, negative): 3>2 wins, 3>1 wins, 2=2 half, 2>1 wins
    assert metrics.auroc([3, 2, 2, 1], [1, 1, 0, 0]) == 3.5 / 4
    assert metrics.auroc([1, 1, 1, 1], [1, 1, 0, 0]) == 0.5
    assert metrics.auroc([np.inf, 0, -np.inf], [1, 0, 0]) == 1.0


def test_auroc_is_mirrored_by_the_sign():
    score, label = _tied_problem(3)
    assert metrics.auroc(-score, label) == pytest.approx(1 - metrics.auroc(score, label))


@pytest.mark.parametrize("label", [[0, 0], [1, 1], []])
def test_auroc_of_one_class_is_nan(label):
    assert np.isnan(metrics.auroc(np.zeros(len(label)), np.array(label, dtype=bool)))


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_predictive_metrics_equal_scikit_learn(classes):
    proba, label = _probabilities(classes, classes=classes)
    predicted = proba.argmax(axis=1)
    auc = (
        reference.roc_auc_score(label, proba[:, 1])
        if classes == 2
        else reference.roc_auc_score(label, proba, multi_class="ovr", average="macro")
    )
    onehot = np.eye(classes)[label]
    precision = (
        reference.average_precision_score(label, proba[:, 1])
        if classes == 2
        else reference.average_precision_score(onehot, proba, average="macro")
    )
    assert metrics.auroc_macro(proba, label) == pytest.approx(auc)
    assert metrics.average_precision_macro(proba, label) == pytest.approx(precision)
    assert metrics.accuracy(predicted, label) == reference.accuracy_score(label, predicted)
    assert metrics.macro_f1(predicted, label) == pytest.approx(
        reference.f1_score(label, predicted, average="macro")
    )
    assert metrics.nll(proba, label) == pytest.approx(reference.log_loss(label, proba))
    brier = (
        reference.brier_score_loss(label, proba[:, 1])
        if classes == 2
        else ((proba - onehot) ** 2).sum(axis=1).mean()
    )
    assert metrics.brier(proba, label) == pytest.approx(brier)


def test_average_precision_with_ties_equals_scikit_learn():
    for seed in range(5):
        score, label = _tied_problem(seed)
        assert metrics.average_precision(score, label) == pytest.approx(
            reference.average_precision_score(label, score)
        )


def test_macro_f1_counts_a_class_never_predicted_as_zero():
    # class 0: 2*1/(1+2); class 1: never predicted, 0; class 2: predicted once, never true, 0
    assert metrics.macro_f1([0, 2, 0], [0, 0, 1]) == pytest.approx((2 * 1 / 4 + 0 + 0) / 3)


def test_macro_mean_needs_every_class():
    proba, label = _probabilities(0)
    keep = label != 2
    assert np.isnan(metrics.auroc_macro(proba[keep], label[keep]))
    assert np.isnan(metrics.average_precision_macro(proba[keep], label[keep]))
    binary = np.array([[0.2, 0.8], [0.4, 0.6]])
    assert np.isnan(metrics.average_precision_macro(binary, np.array([1, 1])))


def test_nll_is_finite_at_probability_zero():
    value = metrics.nll(np.array([[1.0, 0.0]]), np.array([1]))
    assert value == pytest.approx(12 * np.log(10), rel=1e-9)


def test_ece_by_hand():
    # bins of width 1/2: (0, .5] holds .5 (right) and .3 (wrong); (.5, 1] holds .9 (right)
    confidence = np.array([0.5, 0.3, 0.9])
    correct = np.array([True, False, True])
    expected = 2 / 3 * abs(0.5 - 0.4) + 1 / 3 * abs(1 - 0.9)
    assert metrics.ece(confidence, correct, bins=2) == pytest.approx(expected)


def test_ece_bins_against_a_loop():
    rng = np.random.default_rng(4)
    confidence, correct = rng.random(500), rng.random(500) < 0.6
    confidence[:5] = [0, 1 / 15, 2 / 15, 1, 0.2]
    total = 0.0
    for i in range(15):
        inside = (confidence > i / 15) & (confidence <= (i + 1) / 15)
        if i == 0:
            inside |= confidence == 0
        if inside.any():
            total += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
    assert metrics.ece(confidence, correct) == pytest.approx(total)


def _orders(score):
    """All orders of the cases that put higher scores first."""
    for order in permutations(range(len(score))):
        if all(score[a] >= score[b] for a, b in pairwise(order)):
            yield list(order)


@pytest.mark.parametrize("budget", [0, 0.1, 0.25, 0.5, 0.6, 0.77, 1])
def test_capture_is_the_mean_over_tie_orders(budget):
    score = np.array([2, 1, 1, 1, 0, 0, 3])
    label = np.array([0, 1, 0, 1, 1, 0, 1])
    values = []
    for order in _orders(score):
        hits = label[order]
        reviewed = budget * len(label)
        whole = int(np.floor(reviewed + 1e-12))
        part = reviewed - whole
        found = hits[:whole].sum() + (part * hits[whole] if whole < len(hits) else 0)
        values.append(found / label.sum())
    assert metrics.capture_at(score, label, budget) == pytest.approx(np.mean(values))


def test_aurc_is_the_mean_over_tie_orders():
    score = np.array([2, 1, 1, 1, 0, 0, 3])
    label = np.array([0, 1, 0, 1, 1, 0, 1])
    values = [
        np.mean([label[order][k:].mean() for k in range(len(label))]) for order in _orders(score)
    ]
    assert metrics.aurc(score, label) == pytest.approx(np.mean(values))


def test_aurc_of_a_constant_score_is_the_base_rate_and_of_a_good_one_is_less():
    label = np.array([1, 0, 0, 1, 0])
    assert metrics.aurc(np.zeros(5), label) == pytest.approx(0.4)
    assert metrics.aurc(label, label) < 0.4 < metrics.aurc(-label, label)


def test_a_perfect_ranking_reaches_the_ceiling():
    label = np.array([1] * 8 + [0] * 12)
    for q in (0.05, 0.1, 0.2, 0.4, 0.9):
        assert metrics.capture_at(label, label, q) == pytest.approx(
            metrics.capture_ceiling(label.mean(), q)
        )
    assert metrics.capture_ceiling(0.4, 0.2) == 0.5
    assert np.isnan(metrics.capture_ceiling(0.0, 0.2))


def test_capture_curve_runs_from_zero_to_one_without_falling():
    score, label = _tied_problem(1)
    curve = metrics.capture_curve(score, label, np.linspace(0, 1, 41))
    assert curve[0] == 0
    assert curve[-1] == pytest.approx(1)
    assert (np.diff(curve) >= -1e-12).all()
    assert np.isnan(metrics.capture_curve(score, np.zeros_like(label), np.array([0.5]))).all()


def test_false_conf_captured_ranks_the_wrong_cases():
    score = np.array([5.0, 4, 3, 2, 1])
    wrong = np.array([True, False, False, False, True])
    assert metrics.false_conf_captured(score, wrong, 0.2) == 0.5
    assert np.isnan(metrics.false_conf_captured(score, np.zeros(5, dtype=bool), 0.2))


def test_within_class_auroc_ignores_what_the_class_tells():
    predicted = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    label = np.array([1, 1, 1, 0, 1, 0, 0, 0])
    value, used = metrics.auroc_within_class(-predicted, label, predicted)
    assert (value, used) == (0.5, 8)
    assert metrics.auroc(-predicted, label) == 0.75


def test_within_class_auroc_weights_by_cases_and_leaves_out_small_classes():
    predicted = np.array([0, 0, 1, 1, 1, 1, 2])
    label = np.array([1, 0, 0, 1, 1, 0, 1])
    score = np.array([2.0, 1, 5, 4, 6, 1, 9])
    # class 0: 1 (2 cases); class 1: pairs (4,5)no (4,1)yes (6,5)yes (6,1)yes = .75 (4 cases)
    assert metrics.auroc_within_class(score, label, predicted) == (
        pytest.approx((2 * 1 + 4 * 0.75) / 6),
        6,
    )
    assert metrics.auroc_within_class(score, label, predicted, min_positive=2) == (0.75, 4)
    assert np.isnan(metrics.auroc_within_class(score, label, predicted, min_positive=3)[0])


def test_bad_inputs_are_named():
    with pytest.raises(DataError, match="1 of 2 scores are NaN"):
        metrics.auroc([1.0, np.nan], [0, 1])
    with pytest.raises(DataError, match="one length"):
        metrics.auroc([1.0], [0, 1])
    with pytest.raises(DataError, match="0 and 1"):
        metrics.auroc([1.0, 2.0], [1, 2])
    with pytest.raises(DataError, match="share of the cases"):
        metrics.capture_at([1.0, 2.0], [0, 1], 20)
    with pytest.raises(DataError, match=r"0\.\.1"):
        metrics.nll(np.full((1, 2), 0.5), np.array([2]))


@pytest.mark.parametrize(
    "value",
    [
        metrics.accuracy([], []),
        metrics.macro_f1([], []),
        metrics.nll(np.empty((0, 2)), np.empty(0, dtype=int)),
        metrics.brier(np.empty((0, 3)), np.empty(0, dtype=int)),
        metrics.ece(np.empty(0), np.empty(0, dtype=bool)),
        metrics.aurc(np.empty(0), np.empty(0, dtype=bool)),
        metrics.average_precision(np.empty(0), np.empty(0, dtype=bool)),
    ],
)
def test_no_case_gives_nan(value):
    assert np.isnan(value)
