"""Scores of one prediction, from its probability vector alone (paper, Appendix C)."""

import numpy as np

CLIP = 1e-12  # paper, eq. 14
EPSILON = 1e-8  # paper, eq. 8 and 29


def clip_probabilities(proba: np.ndarray, clip: float = CLIP) -> np.ndarray:
    """Return p̃: clipped from below and renormalised, float64 (eq. 14).

    Args:
        proba: probabilities [n, C], any float dtype.
        clip: lower bound in (0, 1/C).
    """
    p = np.maximum(np.asarray(proba, dtype=np.float64), clip)
    return p / p.sum(axis=-1, keepdims=True)


def pseudo_logits(proba: np.ndarray, clip: float = CLIP) -> np.ndarray:
    """Return z̃: centred logarithms of p̃ [n, C], float64 (eq. 15)."""
    log_p = np.log(clip_probabilities(proba, clip))
    return log_p - log_p.mean(axis=-1, keepdims=True)


def predicted_label(proba: np.ndarray) -> np.ndarray:
    """Return argmax [n], int16; ties go to the lowest class index."""
    return np.argmax(proba, axis=-1).astype(np.int16)


def margin_of(proba: np.ndarray, label: np.ndarray, clip: float = CLIP) -> np.ndarray:
    """Return the margin of a given class, m = z̃_label − max over the others of z̃ (eq. 2).

    Centring and renormalisation shift all pseudo-logits of a row alike and cancel in the
    difference, so the margin is one difference of logarithms.

    Args:
        proba: probabilities [n, C].
        label: class whose support is measured [n]; for a stressed state the class predicted
            *before* the stress, so that the margin turns negative when the prediction flips.
        clip: lower bound of a probability.

    Returns:
        float64 [n], in natural-log units; non-negative where ``label`` is the argmax.
    """
    p = np.maximum(np.asarray(proba, dtype=np.float64), clip)
    label = np.asarray(label, dtype=np.intp)
    if p.shape[1] == 2:
        log_p = np.log(p)
        gap = log_p[:, 1] - log_p[:, 0]
        return np.where(label == 1, gap, -gap)
    rows = np.arange(len(p))
    own = p[rows, label]
    p[rows, label] = 0.0
    return np.log(own) - np.log(p.max(axis=1))


def is_saturated(proba: np.ndarray, clip: float = CLIP) -> np.ndarray:
    """Tell where some probability is at the clip, bool [n]: the margin is then a lower bound."""
    return (np.asarray(proba, dtype=np.float64) <= clip).any(axis=-1)


def relative_collapse(margin: np.ndarray, stressed: np.ndarray) -> np.ndarray:
    """Return κ = max(0, m(x) − m(x')) / (|m(x)| + 1e-8), in [0, ∞) (eq. 8, 29).

    Args:
        margin: m(x) of the unstressed prediction, broadcastable against ``stressed``.
        stressed: m(x') of the same class.
    """
    return np.maximum(0.0, margin - stressed) / (np.abs(margin) + EPSILON)


def confidence_scores(proba: np.ndarray, clip: float = CLIP) -> dict[str, np.ndarray]:
    """Return the four confidence scores of eq. 16 to 19, each float64 [n].

    ``entropy`` is eq. 17 as printed (larger = less confident), the other three grow with
    confidence. For two classes all four are monotone in one another.
    """
    p = clip_probabilities(proba, clip)
    log_p = np.log(p)
    z = log_p - log_p.mean(axis=1, keepdims=True)
    top = z.max(axis=1)
    second = np.sort(z, axis=1)[:, -2]
    return {
        "max_softmax": p.max(axis=1),
        "entropy": -(p * log_p).sum(axis=1),
        "margin": top - second,
        "negative_energy": top + np.log(np.exp(z - top[:, None]).sum(axis=1)),
    }
