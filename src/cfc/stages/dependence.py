"""Stage dependence: what each score knows beyond the confidence, for one unit."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from cfc import dependence
from cfc.artifacts import to_numpy
from cfc.errors import ArtifactError
from cfc.evaluate import EvaluationSettings, metric_row, metric_table, score_names, undefined_reason
from cfc.metrics import auroc, auroc_within_class
from cfc.ranking import SCORES

FAMILY = "dependence"
METRICS = (
    "auroc_within_confidence",
    "partial_rank_correlation",
    "auroc_with_confidence",
    "auroc_gain",
)
CONFIDENCE_ALONE = "auroc_confidence_alone"


def dependence_unit(
    certificates: pa.Table,
    labels: pa.Table,
    ranks: pa.Table,
    *,
    settings: EvaluationSettings,
    n_strata: int,
    folds: int,
    unit: tuple[str, str, int],
) -> pa.Table:
    """Return the metrics of one unit in the evaluate schema (family ``dependence``).

    For each label rule and each score that is no confidence score, over test cases with p̂ >= τ_p:

    - ``auroc_within_confidence``: AUROC within strata of equal confidence, weighted by cases;
    - ``partial_rank_correlation`` of score and label given the margin;
    - ``auroc_with_confidence``: cross-validated AUROC of a logistic ranker on the unit's best
      risk-signed confidence score and this score, and ``auroc_gain``: what that adds to
      ``auroc_confidence_alone``.

    Args:
        certificates, labels, ranks: tables of the stages; cases are matched by ``case_id``.
        settings: thresholds and label rules.
        n_strata: number of confidence strata.
        folds: folds of the cross-validation.
        unit: (dataset, model, seed).

    Raises:
        ArtifactError: the files are of different cases.
    """
    keep = (to_numpy(certificates["split"]) == "test") & (
        to_numpy(certificates["confidence"]) >= settings.tau_p
    )
    ids = to_numpy(certificates["case_id"])[keep]
    arrays = {
        "confidence": to_numpy(certificates["confidence"])[keep],
        "margin": to_numpy(certificates["margin"])[keep],
    }
    at_label, at_rank = (_rows(t, ids, n) for t, n in ((labels, "label"), (ranks, "rank")))
    scores = {
        name: to_numpy(ranks[f"{name}_risk"])[at_rank].astype(np.float64)
        for name in score_names(ranks)
    }
    confidence_names = {info.name for info in SCORES if info.kind == "confidence"}
    trusted = {name: v for name, v in scores.items() if name in confidence_names}
    others = {name: v for name, v in scores.items() if name not in confidence_names}
    rows = []
    for rule in settings.label_rules:
        label = to_numpy(labels[rule])[at_label].astype(bool)
        rows += _rule_rows(rule, label, trusted, others, arrays, settings, n_strata, folds, unit[2])
    return metric_table(rows, unit)


def _rule_rows(
    rule, label, trusted, others, arrays, settings, n_strata, folds, seed
) -> Iterator[dict]:
    reason = undefined_reason(label, settings)
    best, alone = None, np.nan
    if not reason:
        best = max(trusted, key=lambda name: (round(auroc(trusted[name], label), 12), -_rank(name)))
        alone = dependence.cross_validated_auroc([trusted[best]], label, folds=folds, seed=seed)
    n, positive = len(label), int(label.sum())
    common = {"n_positive": positive, "label_rule": rule}
    yield metric_row(
        FAMILY, CONFIDENCE_ALONE, alone, n, reason=reason, score=best, sign="risk", **common
    )
    layer = dependence.strata(arrays["confidence"], n_strata)
    for score, values in others.items():
        known = ~np.isnan(values)
        own = undefined_reason(label[known], settings)
        found = dict.fromkeys(METRICS, np.nan)
        why = dict.fromkeys(METRICS, own)
        if not own:
            found |= _values(values, label, known, layer, arrays, settings)
            found |= _ranker(values, label, known, trusted[best], alone, folds, seed)
            why["auroc_within_confidence"] = (
                f"no confidence stratum with {settings.min_positive} brittle and "
                f"{settings.min_negative} non-brittle cases"
            )
            why["partial_rank_correlation"] = "the score or the margin is constant"
        for metric in METRICS:
            yield metric_row(
                FAMILY,
                metric,
                found[metric],
                int(known.sum()),
                reason=why[metric],
                score=score,
                sign="risk",
                **common | {"n_positive": int(label[known].sum())},
            )


def _values(values, label, known, layer, arrays, settings) -> dict[str, float]:
    within, _ = auroc_within_class(
        values[known],
        label[known],
        layer[known],
        min_positive=settings.min_positive,
        min_negative=settings.min_negative,
    )
    partial = dependence.partial_rank_correlation(
        values[known], label[known], arrays["margin"][known]
    )
    return {"auroc_within_confidence": within, "partial_rank_correlation": partial}


def _ranker(values, label, known, confidence, alone, folds, seed) -> dict[str, float]:
    both = dependence.cross_validated_auroc(
        [confidence[known], values[known]], label[known], folds=folds, seed=seed
    )
    if not known.all():  # the score lacks some cases: compare on those that it has
        alone = dependence.cross_validated_auroc(
            [confidence[known]], label[known], folds=folds, seed=seed
        )
    return {"auroc_with_confidence": both, "auroc_gain": both - alone}


def _rank(name: str) -> int:
    return [info.name for info in SCORES].index(name)


def _rows(table: pa.Table, ids: np.ndarray, stage: str) -> np.ndarray:
    held = {case: row for row, case in enumerate(to_numpy(table["case_id"]).tolist())}
    missing = [case for case in ids.tolist() if case not in held]
    if missing:
        raise ArtifactError(
            f"{len(missing)} certified cases are not in the {stage} file (first: {missing[0]}); "
            f"rerun the {stage} stage for this unit"
        )
    return np.array([held[case] for case in ids.tolist()], dtype=np.int64)
