"""Ranking scores of a case: confidence, certificate, and the cheap ones a certificate must beat.

Two signs are kept. ``risk`` orients a confidence score so that less confidence means more risk, as
a practitioner would use it; ``paper`` scores high confidence as more brittle, the sign that the
paper's printed values need (its Table 2a has max-softmax and entropy at the same value below one
half, so its entropy is the negative of eq. 17, as its section 5.1 says). All other scores have one
sign only.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cfc.scores import CLIP, EPSILON, confidence_scores


@dataclass(frozen=True)
class ScoreInfo:
    """Name, readable title and kind of a score.

    Kinds: ``confidence``, ``certificate``, ``attribution`` (the paper's section S.1) or ``ours``.
    """

    name: str
    title: str
    kind: str


SCORES = (
    ScoreInfo("max_softmax", "max-softmax", "confidence"),
    ScoreInfo("entropy", "entropy", "confidence"),
    ScoreInfo("margin", "margin", "confidence"),
    ScoreInfo("negative_energy", "negative energy", "confidence"),
    ScoreInfo("rcma", "CFC-RCMA", "certificate"),
    ScoreInfo("fds", "CFC-FDS", "certificate"),
    ScoreInfo("one_step_relative", "max δ/|m|", "ours"),
    ScoreInfo("one_step_sum", "(max δ + Σδ⁺)/|m|", "ours"),
    ScoreInfo("baseline_class", "baseline predicts another class", "ours"),
)
# scores of analyses a run may leave out; where they were computed they stand beside the others
OPTIONAL_SCORES = (
    ScoreInfo("random_order", "random group order (u)", "attribution"),
    ScoreInfo("one_step", "one-step max δ", "attribution"),
    ScoreInfo("permutation_order", "permutation-importance order (u)", "attribution"),
    ScoreInfo("group_shap", "group-SHAP, top 1", "attribution"),
    ScoreInfo("group_shap_top3", "group-SHAP, top 3", "attribution"),
    ScoreInfo("exposure", "exposure X", "ours"),
    ScoreInfo("exposed_fds", "exposed FDS (u + X)", "ours"),
)
SIGNS = ("paper", "risk")


def score_info(name: str) -> ScoreInfo | None:
    """Return what is known about a score, None for a name of nobody's."""
    return next((info for info in (*SCORES, *OPTIONAL_SCORES) if info.name == name), None)


def in_order(names: Iterable[str]) -> list[str]:
    """Return score names in declared order: `SCORES`, `OPTIONAL_SCORES`, then any others."""
    held = list(dict.fromkeys(names))
    known = [info.name for info in (*SCORES, *OPTIONAL_SCORES) if info.name in held]
    return known + [name for name in held if name not in known]


def ranking_scores(
    *,
    proba: np.ndarray,
    margin: np.ndarray,
    delta: np.ndarray,
    rcma: np.ndarray,
    u: np.ndarray,
    predicted: np.ndarray,
    baseline_label: np.ndarray,
    clip: float = CLIP,
) -> dict[str, np.ndarray]:
    """Return ``<score>_<sign>`` for every score and sign; higher is reviewed first.

    FDS is ranked by u, of which it is a strictly increasing function: 1 − exp(−u) rounds to ties.

    Args:
        proba: probabilities [n, C].
        margin: m(x) [n].
        delta: one-step drops [n, G].
        rcma: [n].
        u: [n].
        predicted: [n].
        baseline_label: class of x̄, [n] or a scalar.
        clip: lower bound of a probability.

    Returns:
        float64 arrays [n].
    """
    confidence = confidence_scores(proba, clip)
    confidence["entropy"] = -confidence["entropy"]
    size = np.abs(margin) + EPSILON
    largest = delta.max(axis=1)
    single = {
        "rcma": rcma,
        "fds": u,
        "one_step_relative": largest / size,
        "one_step_sum": (largest + np.maximum(0.0, delta).sum(axis=1)) / size,
        "baseline_class": (np.asarray(predicted) != baseline_label).astype(np.float64),
    }
    scores = {}
    for info in SCORES:
        if info.kind == "confidence":
            scores[f"{info.name}_paper"] = confidence[info.name]
            scores[f"{info.name}_risk"] = -confidence[info.name]
        else:
            scores[f"{info.name}_paper"] = scores[f"{info.name}_risk"] = single[info.name]
    return scores
