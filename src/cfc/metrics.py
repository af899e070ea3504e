"""Metrics of one unit, in plain NumPy.

Two rules hold throughout. A metric that is not defined on the cases it is given (an empty set, one
class only, a class that never occurs) is ``nan``, never a neutral stand-in such as 0.5; the caller
turns it into a null with a reason. A ranking metric never depends on how tied scores happen to be
stored: AUROC uses mid-ranks, and everything read off a ranked list is the exact expectation over a
uniformly random order within each block of ties.

Scores are oriented "higher is ranked first"; labels are 1 for the cases sought.
"""

import numpy as np

from cfc.errors import DataError

PROBABILITY_FLOOR = 1e-12  # the clip of eq. (14)
ECE_BINS = 15


def auroc(score: np.ndarray, label: np.ndarray) -> float:
    """Return the area under the ROC curve, from mid-ranks.

    ``(R - P (P + 1) / 2) / (P N)`` with ``R`` the sum of the ascending mid-ranks of the ``P``
    positives and ``N`` negatives: the chance that a positive outranks a negative, a tie counting
    one half.

    Args:
        score: float [n], no NaN (infinities are ranked).
        label: bool or 0/1 [n].

    Returns:
        a value in [0, 1]; ``nan`` when one of the classes is absent.

    Raises:
        DataError: lengths differ, a score is NaN or a label is not 0/1.
    """
    score, label = _ranking_inputs(score, label)
    positive = int(label.sum())
    negative = len(label) - positive
    if positive == 0 or negative == 0:
        return float("nan")
    rank_sum = float(_mid_ranks(score)[label].sum())
    return (rank_sum - positive * (positive + 1) / 2) / (positive * negative)


def auroc_macro(proba: np.ndarray, label: np.ndarray) -> float:
    """Return the test AUROC of a classifier: one-vs-rest macro mean, or class 1's if binary.

    Args:
        proba: float [n, C].
        label: int [n] in 0..C-1.

    Returns:
        a value in [0, 1]; ``nan`` when a class never occurs (a mean over the others would be a
        mean of another quantity) or when only one class does.
    """
    return _one_vs_rest(proba, label, auroc)


def average_precision(score: np.ndarray, label: np.ndarray) -> float:
    """Return average precision: the sum over thresholds of (recall step) x precision.

    Tied scores form one threshold, so no interpolation and no order among ties enters.

    Returns:
        a value in (0, 1]; ``nan`` without a positive case.
    """
    score, label = _ranking_inputs(score, label)
    if not label.any():
        return float("nan")
    reviewed, hits = _blocks(score, label)
    steps = np.diff(hits, prepend=0.0)
    return float((steps * hits / reviewed).sum() / hits[-1])


def average_precision_macro(proba: np.ndarray, label: np.ndarray) -> float:
    """Return average precision of class 1 (binary) or the one-vs-rest macro mean.

    Shapes and the ``nan`` rule are those of `auroc_macro`.
    """
    return _one_vs_rest(proba, label, average_precision)


def accuracy(predicted: np.ndarray, label: np.ndarray) -> float:
    """Return the share of cases whose predicted label is the true one, in [0, 1]; ``nan`` if none.

    Args:
        predicted, label: int [n].
    """
    predicted, label = _label_pair(predicted, label)
    return float((predicted == label).mean()) if len(label) else float("nan")


def macro_f1(predicted: np.ndarray, label: np.ndarray) -> float:
    """Return the unweighted mean over classes of ``2 TP / (2 TP + FP + FN)``, in [0, 1].

    The classes are those that occur as a true or as a predicted label; a class that is never
    predicted, or never right, counts 0. ``nan`` without cases.
    """
    predicted, label = _label_pair(predicted, label)
    if not len(label):
        return float("nan")
    values = []
    for c in np.union1d(predicted, label):
        hit = np.count_nonzero((predicted == c) & (label == c))
        either = np.count_nonzero(predicted == c) + np.count_nonzero(label == c)
        values.append(2 * hit / either)
    return float(np.mean(values))


def nll(proba: np.ndarray, label: np.ndarray) -> float:
    """Return the mean negative log-likelihood (natural log), >= 0; ``nan`` without cases.

    Probabilities are clipped from below at 1e-12 and renormalised first (eq. 14), so the value
    stays below about 27.7 a case.

    Args:
        proba: float [n, C].
        label: int [n] in 0..C-1.
    """
    proba, label = _proba_pair(proba, label)
    if not len(label):
        return float("nan")
    clipped = np.maximum(proba, PROBABILITY_FLOOR)
    clipped /= clipped.sum(axis=1, keepdims=True)
    return float(-np.log(clipped[np.arange(len(label)), label]).mean())


def brier(proba: np.ndarray, label: np.ndarray) -> float:
    """Return the Brier score; ``nan`` without cases.

    Two classes: the mean of ``(p_1 - y)**2``, in [0, 1]. More classes: the mean over cases of the
    sum over classes of ``(p_c - 1[y = c])**2``, in [0, 2]. (The sum form on two classes would be
    twice the first.)
    """
    proba, label = _proba_pair(proba, label)
    if not len(label):
        return float("nan")
    if proba.shape[1] == 2:
        return float(((proba[:, 1] - label) ** 2).mean())
    target = np.zeros_like(proba)
    target[np.arange(len(label)), label] = 1.0
    return float(((proba - target) ** 2).sum(axis=1).mean())


def ece(confidence: np.ndarray, correct: np.ndarray, bins: int = ECE_BINS) -> float:
    """Return the expected calibration error over equal-width bins of the confidence.

    The sum over bins ``(i/bins, (i+1)/bins]`` of ``(n_bin / n) |accuracy - mean confidence|``;
    a confidence of 0 belongs to the first bin.

    Args:
        confidence: float [n] in [0, 1], the probability of the predicted class.
        correct: bool [n].
        bins: number of bins.

    Returns:
        a value in [0, 1]; ``nan`` without cases.
    """
    confidence, correct = _ranking_inputs(confidence, correct)
    if not len(correct):
        return float("nan")
    edges = np.arange(1, bins) / bins
    index = np.searchsorted(edges, confidence, side="left")
    gap = np.bincount(index, weights=correct - confidence, minlength=bins)
    return float(np.abs(gap).sum() / len(correct))


def capture_at(score: np.ndarray, label: np.ndarray, budget: float) -> float:
    """Return Capture@q (eq. 34): the share of the cases sought found among the top ``q n`` ranked.

    The expectation over the order within ties. A budget ``q n`` that is no whole number reviews
    the last case with that fraction's probability, so the value is continuous in ``q``.

    Args:
        score: float [n].
        label: bool or 0/1 [n].
        budget: q in [0, 1].

    Returns:
        a value in [0, 1]; ``nan`` without a positive case. At most `capture_ceiling`.
    """
    return float(capture_curve(score, label, np.array([budget]))[0])


def capture_curve(score: np.ndarray, label: np.ndarray, budgets: np.ndarray) -> np.ndarray:
    """Return Capture@q for every budget; see `capture_at`.

    Args:
        score: float [n].
        label: bool or 0/1 [n].
        budgets: float [b], each in [0, 1].

    Returns:
        float64 [b], non-decreasing in the budget, 0 at 0 and 1 at 1; all ``nan`` without a
        positive case.

    Raises:
        DataError: a budget lies outside [0, 1].
    """
    score, label = _ranking_inputs(score, label)
    budgets = np.asarray(budgets, dtype=np.float64)
    if not ((budgets >= 0) & (budgets <= 1)).all():
        raise DataError("a review budget is a share of the cases: give values in [0, 1]")
    if not label.any():
        return np.full(budgets.shape, np.nan)
    reviewed, hits = _blocks(score, label)
    # Within a block of ties the expected hits grow linearly, hence plain interpolation.
    expected = np.interp(budgets * len(label), np.append(0.0, reviewed), np.append(0.0, hits))
    return expected / hits[-1]


def capture_ceiling(base_rate: float, budget: float) -> float:
    """Return the Capture@q of a perfect ranking, ``min(1, q / base rate)``, in [0, 1].

    ``nan`` when the base rate is 0 or itself ``nan``.
    """
    return min(1.0, budget / base_rate) if base_rate > 0 else float("nan")


def aurc(score: np.ndarray, label: np.ndarray) -> float:
    """Return the area under the residual risk while the top-ranked are escalated.

    ``(1/n) sum_{k=0}^{n-1} r(k)`` with ``r(k)`` the expected share of sought cases among the
    ``n - k`` left after the ``k`` first ranked were escalated. Lower is better; a constant score
    gives the base rate.

    Returns:
        a value in [0, 1]; ``nan`` without cases.
    """
    score, label = _ranking_inputs(score, label)
    n = len(label)
    if n == 0:
        return float("nan")
    reviewed, hits = _blocks(score, label)
    escalated = np.arange(n)
    found = np.interp(escalated, np.append(0.0, reviewed), np.append(0.0, hits))
    return float(((hits[-1] - found) / (n - escalated)).mean())


def false_conf_captured(score: np.ndarray, is_wrong: np.ndarray, budget: float) -> float:
    """Return FalseConfCaptured@q: Capture@q where the cases sought are the wrong predictions.

    Args:
        score: float [n], the ranking of the confident cases.
        is_wrong: bool [n], the predicted label is not the true one.
        budget: q in [0, 1].

    Returns:
        a value in [0, 1]; ``nan`` when no confident prediction is wrong.
    """
    return capture_at(score, is_wrong, budget)


def auroc_within_class(
    score: np.ndarray,
    label: np.ndarray,
    predicted: np.ndarray,
    *,
    min_positive: int = 1,
    min_negative: int = 1,
) -> tuple[float, int]:
    """Return the AUROC within predicted classes, weighted by their numbers of cases.

    A ranking that only tells the predicted classes apart scores 0.5 here.

    Args:
        score: float [n].
        label: bool or 0/1 [n].
        predicted: int [n].
        min_positive, min_negative: a predicted class with fewer cases of a kind is left out.

    Returns:
        the mean in [0, 1] and the number of cases in the classes used; ``(nan, 0)`` when no
        class has enough cases.
    """
    score, label = _ranking_inputs(score, label)
    predicted = np.asarray(predicted)
    total, used = 0.0, 0
    for c in np.unique(predicted):
        member = predicted == c
        positive = int(label[member].sum())
        size = int(member.sum())
        if positive < max(min_positive, 1) or size - positive < max(min_negative, 1):
            continue
        total += size * auroc(score[member], label[member])
        used += size
    return (total / used, used) if used else (float("nan"), 0)


def _mid_ranks(score: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def _blocks(score: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return cumulative cases and positives after each block of ties, best score first."""
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    positives = np.bincount(inverse, weights=label, minlength=len(counts))
    return np.cumsum(counts[::-1]).astype(np.float64), np.cumsum(positives[::-1])


def _one_vs_rest(proba: np.ndarray, label: np.ndarray, metric) -> float:
    proba, label = _proba_pair(proba, label)
    classes = proba.shape[1]
    if classes == 2:
        # Both classes must occur: average precision alone would accept a set without negatives.
        both = 0 < np.count_nonzero(label == 1) < len(label)
        return metric(proba[:, 1], label == 1) if both else float("nan")
    if len(np.unique(label)) < classes:
        return float("nan")
    return float(np.mean([metric(proba[:, c], label == c) for c in range(classes)]))


def _ranking_inputs(score: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    score = np.asarray(score, dtype=np.float64)
    label = np.asarray(label)
    if score.ndim != 1 or score.shape != label.shape:
        raise DataError(
            f"scores of shape {score.shape} and labels of shape {label.shape}: "
            "both must be one-dimensional and of one length"
        )
    if np.isnan(score).any():
        raise DataError(f"{int(np.isnan(score).sum())} of {len(score)} scores are NaN")
    if label.dtype != bool:
        if not np.isin(label, (0, 1)).all():
            raise DataError("labels must be bool, or 0 and 1")
        label = label.astype(bool)
    return score, label


def _label_pair(predicted: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    predicted, label = np.asarray(predicted), np.asarray(label)
    if predicted.ndim != 1 or predicted.shape != label.shape:
        raise DataError(
            f"predicted labels of shape {predicted.shape} and true labels of shape {label.shape}: "
            "both must be one-dimensional and of one length"
        )
    return predicted, label


def _proba_pair(proba: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    proba, label = np.asarray(proba, dtype=np.float64), np.asarray(label)
    if proba.ndim != 2 or label.shape != (len(proba),) or proba.shape[1] < 2:
        raise DataError(
            f"probabilities of shape {proba.shape} and labels of shape {label.shape}: "
            "expected [n, C] with C >= 2 and [n]"
        )
    if not np.isfinite(proba).all():
        raise DataError("a probability is NaN or infinite")
    if len(label) and not (label.min() >= 0 and label.max() < proba.shape[1]):
        raise DataError(f"labels must lie in 0..{proba.shape[1] - 1}")
    return proba, label.astype(np.int64)
