"""Stage study: what the record and the stress on disk say about labels, components and variants.

Nothing here asks a model. Metrics are long rows of `cfc.evaluate.SCHEMA`, in five families:

- ``ablation``: AUROC of each component of u alone, of each pair and of all;
- ``variant``: AUROC of a variant's scores and their rank correlation with the default, over the
  cases of the sensitivity stage; score = the variant;
- ``thresholds``: base rate and AUROC of every score over the grid of τ_p and τ_κ;
- ``reliability``: agreement of labels from disjoint draws and the AUROC that allows;
- ``selective``: error rate of the predictions kept at each confidence threshold.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from cfc.agreement import auroc_bound, auroc_ceiling_beta, cohen_kappa, spearman
from cfc.artifacts import lists_to_matrix, to_numpy
from cfc.certificate import combine
from cfc.errors import ArtifactError
from cfc.evaluate import (
    EvaluationSettings,
    metric_row,
    metric_table,
    score_names,
    share_text,
    undefined_reason,
)
from cfc.labels import LabelRule, brittle
from cfc.metrics import auroc
from cfc.ranking import SCORES, SIGNS
from cfc.scores import clip_probabilities, relative_collapse
from cfc.stages.label import stress_arrays
from cfc.variants import DEFAULT, VARIANT_SCORES

COMPONENTS = {
    "flip_budget": (0.0, 1.0, 0.0),
    "rcma": (1.0, 0.0, 0.0),
    "degradation": (0.0, 0.0, 1.0),
    "flip_budget+rcma": (0.5, 0.5, 0.0),
    "flip_budget+degradation": (0.0, 0.5, 0.5),
    "rcma+degradation": (0.5, 0.0, 0.5),
}
FULL = "full"
_CONFIDENCE = tuple(info.name for info in SCORES if info.kind == "confidence")
_NO_CASE = "no high-confidence case"


@dataclass(frozen=True)
class StudySettings:
    """What the study depends on besides its input files.

    Attributes:
        rules: label rules by name.
        tau_p, tau_kappa, tau_flip: thresholds of the labels in use.
        grid_tau_p, grid_tau_kappa: thresholds of the grid, ascending.
        selective: confidence thresholds of the selective risk, ascending.
        cells: names of all grouping/baseline cells, so that one a data set lacks is said.
        evaluation: least numbers of cases of each kind.
        threshold: confidence from which cases were stressed.
    """

    rules: Mapping[str, LabelRule]
    tau_p: float
    tau_kappa: float
    tau_flip: float
    grid_tau_p: tuple[float, ...]
    grid_tau_kappa: tuple[float, ...]
    selective: tuple[float, ...]
    cells: tuple[str, ...]
    evaluation: EvaluationSettings
    threshold: float = 0.85


def study_unit(
    predictions: pa.Table,
    certificates: pa.Table,
    stressed: pa.Table,
    labels: pa.Table,
    ranks: pa.Table,
    sensitivity: pa.Table,
    settings: StudySettings,
    *,
    clip: float,
    unit: tuple[str, str, int],
) -> pa.Table:
    """Return the long rows of one unit.

    Args:
        predictions: table of the train stage (split, label, predicted, proba).
        certificates, stressed, labels, ranks, sensitivity: tables of the stages of these names.
        settings: see `StudySettings`.
        clip: lower bound of a probability for this unit's model.
        unit: (dataset, model, seed).

    Raises:
        ArtifactError: the files are of different cases.
    """
    confident = _Confident.gather(certificates, stressed, labels, ranks)
    rows = [
        *_ablation_rows(confident, settings),
        *_variant_rows(confident, sensitivity, settings),
        *_threshold_rows(confident, settings),
        *_reliability_rows(confident, settings),
        *_selective_rows(predictions, settings, clip),
    ]
    return metric_table(rows, unit)


@dataclass(frozen=True)
class _Confident:
    """The stressed cases of a unit, every array in the order of the stress file."""

    stress: Mapping[str, Any]
    case_id: np.ndarray
    confidence: np.ndarray
    labels: Mapping[str, np.ndarray]
    scores: Mapping[tuple[str, str], np.ndarray]
    components: tuple[np.ndarray, np.ndarray, np.ndarray]
    u: np.ndarray

    @classmethod
    def gather(cls, certificates, stressed, labels, ranks) -> "_Confident":
        arrays = stress_arrays(stressed)
        case_id = arrays.pop("case_id")
        own = certificates.take(_positions(certificates, case_id, "certify"))
        label_rows = labels.take(_positions(labels, case_id, "label"))
        rank_rows = ranks.take(_positions(ranks, case_id, "rank"))
        thresholds = [
            to_numpy(own[name].cast(pa.float64()).fill_null(np.inf))
            for name in own.column_names
            if name.startswith("lambda_")
        ]
        return cls(
            stress=arrays,
            case_id=case_id,
            confidence=arrays["confidence"],
            labels={
                name: to_numpy(label_rows[name]).astype(bool)
                for name in label_rows.column_names
                if pa.types.is_boolean(label_rows[name].type) and not name.startswith("is_")
            },
            scores={
                (name, sign): to_numpy(rank_rows[f"{name}_{sign}"]).astype(np.float64)
                for name in score_names(ranks)
                for sign in SIGNS
            },
            components=(
                to_numpy(own["rcma"]),
                to_numpy(own["flip_budget"]).astype(np.float64),
                np.stack(thresholds, axis=1),
            ),
            u=to_numpy(own["u"]),
        )


def _positions(table: pa.Table, case_id: np.ndarray, stage: str) -> pa.Array:
    held = {int(c): i for i, c in enumerate(to_numpy(table["case_id"]))}
    missing = [int(c) for c in case_id if int(c) not in held]
    if missing:
        raise ArtifactError(
            f"{len(missing)} stressed cases are not in the {stage} file (first: {missing[0]}); "
            f"rerun the {stage} stage for this unit"
        )
    return pa.array([held[int(c)] for c in case_id], pa.int64())


def _auroc_row(family, metric, values, label, settings, **keys) -> dict[str, Any]:
    # a score that was not computed for a case leaves the case out
    held = ~np.isnan(values)
    reason = None
    if len(held) and not held.any():
        reason = f"the score was computed for none of {len(held)} high-confidence cases"
    values, label = values[held], label[held]
    reason = reason or undefined_reason(label, settings.evaluation)
    value = np.nan if reason else auroc(values, label)
    return metric_row(
        family, metric, value, len(label), n_positive=label.sum(), reason=reason, **keys
    )


# --- components ------------------------------------------------------------------------------


def _ablation_rows(confident: _Confident, settings) -> Iterator[dict[str, Any]]:
    kept = confident.confidence >= settings.tau_p
    scores = {name: combine(*confident.components, w) for name, w in COMPONENTS.items()}
    scores[FULL] = confident.u
    for rule in settings.rules:
        label = confident.labels[rule][kept]
        for name, values in scores.items():
            yield _auroc_row(
                "ablation", "auroc", values[kept], label, settings, label_rule=rule, score=name
            )
        yield from _reference_rows("ablation", confident, kept, rule, label, settings)


def _reference_rows(family, confident, kept, rule, label, settings) -> Iterator[dict[str, Any]]:
    """Yield the confidence scores in the risk sign, over the same cases."""
    for name in _CONFIDENCE:
        if (name, "risk") in confident.scores:
            values = confident.scores[name, "risk"][kept]
            keys = {"label_rule": rule, "score": name, "sign": "risk"}
            yield _auroc_row(family, "auroc", values, label, settings, **keys)


# --- variants of the protocol ----------------------------------------------------------------


def _variant_rows(confident: _Confident, table: pa.Table, settings) -> Iterator[dict[str, Any]]:
    frame = table.to_pandas()
    variants = {name: part for name, part in frame.groupby("variant", sort=False)}
    variants = {DEFAULT: variants.get(DEFAULT, frame.iloc[:0]), **variants}
    at = {int(c): i for i, c in enumerate(confident.case_id)}
    ids = variants[DEFAULT]["case_id"].to_numpy()
    absent = [int(c) for c in ids if int(c) not in at]
    if absent:
        raise ArtifactError(
            f"{len(absent)} cases of the sensitivity file were not stressed (first: {absent[0]}); "
            "sensitivity.threshold must not be below audit.threshold"
        )
    where = np.array([at[int(c)] for c in ids], dtype=np.intp)
    kept = confident.confidence[where] >= settings.tau_p
    chosen = where[kept]
    default = variants[DEFAULT]
    for variant in dict.fromkeys([*variants, *settings.cells]):
        part = variants.get(variant)
        why = None if part is not None else "the data set does not declare this grouping"
        if part is None and not len(ids):
            why = _NO_CASE
        for name, field in VARIANT_SCORES.items():
            own = None if part is None else part[field].to_numpy(dtype=np.float64)[kept]
            reference = default[field].to_numpy(dtype=np.float64)[kept]
            yield _spearman_row(f"spearman_{name}", own, reference, why, variant)
            for rule in settings.rules:
                label = confident.labels[rule][chosen]
                keys = {"label_rule": rule, "score": variant}
                metric = f"auroc_{name}"
                if part is None:
                    yield metric_row("variant", metric, np.nan, 0, reason=why, **keys)
                else:
                    yield _auroc_row("variant", metric, own, label, settings, **keys)
    mask = np.zeros(len(confident.case_id), dtype=bool)
    mask[chosen] = True
    for rule in settings.rules:
        label = confident.labels[rule][mask]
        yield from _reference_rows("variant", confident, mask, rule, label, settings)


def _spearman_row(metric, own, reference, why, variant) -> dict[str, Any]:
    if own is None:
        return metric_row("variant", metric, np.nan, 0, reason=why, score=variant)
    why = _NO_CASE if not len(own) else "a constant ranking, or one case only"
    value = spearman(own, reference)
    return metric_row("variant", metric, value, len(own), reason=why, score=variant)


# --- thresholds ------------------------------------------------------------------------------


def grid_metric(metric: str, tau_p: float, tau_kappa: float) -> str:
    """Return the metric name of one cell of the threshold grid, e.g. ``auroc@0.90/0.50``."""
    return f"{metric}@{share_text(tau_p)}/{share_text(tau_kappa)}"


def _threshold_rows(confident: _Confident, settings) -> Iterator[dict[str, Any]]:
    for rule_name, rule in settings.rules.items():
        for tau_kappa in settings.grid_tau_kappa:
            # confidence filters the cases below; the label itself is that of a low threshold
            failing = _labels(confident, rule, tau_kappa, settings, tau_p=0.0)
            for tau_p in settings.grid_tau_p:
                kept = confident.confidence >= tau_p
                yield from _cell_rows(
                    confident, failing[kept], kept, rule_name, (tau_p, tau_kappa), settings
                )


def _cell_rows(confident, label, kept, rule, cell, settings) -> Iterator[dict[str, Any]]:
    n = len(label)
    rate, auc = grid_metric("base_rate", *cell), grid_metric("auroc", *cell)
    if cell[0] < settings.threshold:
        why = f"cases below confidence {settings.threshold:g} were not stressed"
        yield metric_row("thresholds", rate, np.nan, n, reason=why, label_rule=rule)
        for score, sign in confident.scores:
            keys = {"label_rule": rule, "score": score, "sign": sign}
            yield metric_row("thresholds", auc, np.nan, n, reason=why, **keys)
        return
    value = label.mean() if n else np.nan
    counts = {"n_positive": label.sum(), "reason": _NO_CASE}
    yield metric_row("thresholds", rate, value, n, label_rule=rule, **counts)
    for (score, sign), values in confident.scores.items():
        keys = {"label_rule": rule, "score": score, "sign": sign}
        yield _auroc_row("thresholds", auc, values[kept], label, settings, **keys)


def _labels(confident, rule, tau_kappa, settings, *, tau_p, margins=None, labels=None):
    arrays = dict(confident.stress)
    if margins is not None:
        arrays |= {"margins": margins, "labels": labels}
    if not len(confident.case_id):
        return np.zeros(0, dtype=bool)
    return brittle(rule, tau_p=tau_p, tau_kappa=tau_kappa, tau_flip=settings.tau_flip, **arrays)


# --- reliability of the labels ---------------------------------------------------------------


def _reliability_rows(confident: _Confident, settings) -> Iterator[dict[str, Any]]:
    kept = confident.confidence >= settings.tau_p
    for name, rule in settings.rules.items():
        sizes = _half_sizes(rule, confident.stress["labels"])
        short = [
            f"two disjoint sets of {sizes[o]} draws of {o} are needed, {h.shape[2]} are made"
            for o, h in confident.stress["labels"].items()
            if o in sizes and not 0 < 2 * sizes[o] <= h.shape[2]
        ]
        if short or not kept.any():
            yield from _undefined_reliability(name, short[0] if short else _NO_CASE, kept.sum())
            continue
        first, second = (
            _half_label(confident, rule, sizes, half, settings)[kept] for half in (0, 1)
        )
        fresh = _fresh_outcome(confident, rule, sizes, settings)[kept]
        yield from _agreement_rows(name, first, second, settings)
        for metric, values in (
            ("auroc_fresh", fresh),
            ("auroc_fds", confident.scores["fds", "risk"][kept]),
            ("auroc_one_step_sum", confident.scores["one_step_sum", "risk"][kept]),
        ):
            yield _auroc_row("reliability", metric, values, first, settings, label_rule=name)


RELIABILITY = (
    "base_rate",
    "agreement",
    "kappa",
    "ceiling_beta",
    "ceiling_bound",
    "auroc_fresh",
    "auroc_fds",
    "auroc_one_step_sum",
)


def _undefined_reliability(rule: str, why: str, n: int) -> Iterator[dict[str, Any]]:
    for metric in RELIABILITY:
        yield metric_row("reliability", metric, np.nan, n, reason=why, label_rule=rule)


def _half_sizes(rule: LabelRule, held: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Return operator -> draws in one half: those the rule looks at, else half of all."""
    return {o: rule.draws or held[o].shape[2] // 2 for o in rule.cells if o in held}


def _part(arrays: Mapping[str, np.ndarray], sizes, half: int) -> dict[str, np.ndarray]:
    return {o: arrays[o][:, :, half * n : (half + 1) * n] for o, n in sizes.items()}


def _half_label(confident, rule, sizes, half, settings) -> np.ndarray:
    return _labels(
        confident,
        rule,
        settings.tau_kappa,
        settings,
        tau_p=settings.tau_p,
        margins=_part(confident.stress["margins"], sizes, half),
        labels=_part(confident.stress["labels"], sizes, half),
    )


def _agreement_rows(rule, first, second, settings) -> Iterator[dict[str, Any]]:
    n, positive = len(first), int(first.sum())
    rate = (first.mean() + second.mean()) / 2
    kappa = cohen_kappa(first, second)
    # a handful of brittle cases makes kappa noise: the same minimum as for an AUROC
    why = undefined_reason(first, settings.evaluation) or undefined_reason(
        second, settings.evaluation
    )
    values = {
        "base_rate": rate,
        "agreement": (first == second).mean(),
        "kappa": np.nan if why else kappa,
        "ceiling_beta": np.nan if why else auroc_ceiling_beta(kappa, rate),
        "ceiling_bound": np.nan if why else auroc_bound(kappa, rate),
    }
    for metric, value in values.items():
        yield metric_row(
            "reliability", metric, value, n, n_positive=positive, reason=why, label_rule=rule
        )


def _fresh_outcome(confident, rule, sizes, settings) -> np.ndarray:
    """Return how badly each case fares in draws the first half does not hold, graded [n].

    ``any_draw``: share of failing draws over the cells. ``mean``: the largest cell's mean κ or
    share of flips, each in units of its threshold.
    """
    stress = confident.stress
    worst = np.zeros(len(confident.case_id))
    failing: list[np.ndarray] = []
    for operator, grid in rule.cells.items():
        for severity in grid:
            level = int(np.argmin(np.abs(np.array(stress["severities"][operator]) - severity)))
            rest = slice(sizes[operator], None)
            flips = stress["labels"][operator][:, level, rest] != stress["predicted"][:, None]
            kappa = relative_collapse(
                stress["margin"][:, None],
                stress["margins"][operator][:, level, rest].astype(np.float64),
            )
            collapsed = rule.collapse & (kappa >= settings.tau_kappa)
            failing.append((flips | collapsed).mean(axis=1))
            worst = np.maximum(worst, flips.mean(axis=1) / settings.tau_flip)
            if rule.collapse:
                worst = np.maximum(worst, kappa.mean(axis=1) / settings.tau_kappa)
    return np.mean(failing, axis=0) if rule.kind == "any_draw" else worst


# --- selective risk --------------------------------------------------------------------------


def selective_metric(metric: str, threshold: float) -> str:
    """Return the metric name at one confidence threshold, e.g. ``selective_risk@0.90``."""
    return f"{metric}@{threshold:.3f}"


def _selective_rows(predictions: pa.Table, settings, clip: float) -> Iterator[dict[str, Any]]:
    test = to_numpy(predictions["split"]) == "test"
    wrong = (to_numpy(predictions["predicted"]) != to_numpy(predictions["label"]))[test]
    proba = lists_to_matrix(predictions["proba"])[test]
    confidence = clip_probabilities(proba, clip).max(axis=1) if len(proba) else np.empty(0)
    for threshold in settings.selective:
        kept = confidence >= threshold
        n = int(kept.sum())
        risk = wrong[kept].mean() if n else np.nan
        coverage = kept.mean() if len(kept) else np.nan
        why = "no prediction at or above this confidence"
        yield metric_row(
            "selective",
            selective_metric("selective_risk", threshold),
            risk,
            n,
            n_positive=wrong[kept].sum(),
            reason=why,
        )
        yield metric_row(
            "selective", selective_metric("coverage", threshold), coverage, len(kept), reason=why
        )
