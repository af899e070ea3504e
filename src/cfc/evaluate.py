"""Every metric of one unit, as long rows with counts and, where there is no value, the reason.

A row is ``(dataset, model, seed, family, label_rule, score, sign, metric, value, n, n_positive,
reason)``. ``family`` groups the metrics:

- ``predictive``: the model on the whole test split;
- ``certificate``: means of certificate fields over the uniform sample of the test split;
- ``cost``: forward rows of the certificates;
- ``brittle``: how well a score ranks the brittle cases first, over test cases with confidence at
  or above ``tau_p``, under each label rule, for each score and each sign.

Exactly one of ``value`` and ``reason`` is null.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from cfc import metrics
from cfc.artifacts import lists_to_matrix, to_numpy
from cfc.errors import ArtifactError, ConfigError
from cfc.protocol import forward_rows
from cfc.ranking import SIGNS, in_order

SCHEMA = pa.schema(
    [
        ("dataset", pa.string()),
        ("model", pa.string()),
        ("seed", pa.int64()),
        ("family", pa.string()),
        ("label_rule", pa.string()),
        ("score", pa.string()),
        ("sign", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("n", pa.int64()),
        ("n_positive", pa.int64()),
        ("reason", pa.string()),
    ]
)


def _default_curve() -> tuple[float, ...]:
    return tuple(i / 40 for i in range(41))


@dataclass(frozen=True)
class EvaluationSettings:
    """What the evaluation depends on besides its input files.

    Attributes:
        tau_p: confidence from which a case is evaluated, in (0, 1] (eq. 28).
        min_positive, min_negative: cases of each kind below which a ranking metric is undefined.
        budgets: review budgets q of Capture@q, shares in (0, 1).
        false_conf_budget: q of FalseConfCaptured@q.
        curve_budgets: budgets of the capture curve, shares in [0, 1], ascending.
        label_rules: columns of the label file, in the order the tables show.
        n_severities: size of the certificate's severity grid, for the cost formula.
        order: the certificate's order, ``static`` or ``greedy``, for the cost formula.
        n_bootstrap: resamples of every interval.
        bootstrap_seed: root seed of every interval.

    Raises:
        ConfigError: a value is outside its range.
    """

    tau_p: float = 0.90
    min_positive: int = 5
    min_negative: int = 5
    budgets: tuple[float, ...] = (0.05, 0.10, 0.20)
    false_conf_budget: float = 0.20
    curve_budgets: tuple[float, ...] = field(default_factory=_default_curve)
    label_rules: tuple[str, ...] = ("literal", "expected", "flip", "swap")
    n_severities: int = 4
    order: str = "static"
    n_bootstrap: int = 10_000
    bootstrap_seed: int = 0

    def __post_init__(self):
        for name in ("budgets", "curve_budgets", "label_rules"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not 0 < self.tau_p <= 1:
            raise ConfigError(f"tau_p is {self.tau_p}: give a confidence in (0, 1]")
        if min(self.min_positive, self.min_negative) < 1:
            raise ConfigError("min_positive and min_negative must be at least 1")
        shares = (*self.budgets, self.false_conf_budget, *self.curve_budgets)
        if not all(0 <= q <= 1 for q in shares):
            raise ConfigError("review budgets are shares of the cases: give values in [0, 1]")
        if not self.label_rules:
            raise ConfigError("label_rules is empty: name at least one label rule")


def share_text(share: float) -> str:
    """Return a share as metric names hold it: two decimals, or more where it has more.

    >>> share_text(0.2), share_text(0.005)
    ('0.20', '0.005')
    """
    return f"{share:.2f}" if round(share, 2) == share else f"{share:.10g}"


def capture_metric(budget: float) -> str:
    """Return the metric name of Capture@q, e.g. ``capture@0.05``."""
    return f"capture@{share_text(budget)}"


def ceiling_metric(budget: float) -> str:
    """Return the metric name of the ceiling of Capture@q."""
    return f"capture_ceiling@{share_text(budget)}"


def false_conf_metric(budget: float) -> str:
    """Return the metric name of FalseConfCaptured@q."""
    return f"false_conf_captured@{share_text(budget)}"


def curve_metric(budget: float) -> str:
    """Return the metric name of one point of the capture curve, e.g. ``capture_curve@0.025``."""
    return f"capture_curve@{budget:.3f}"


def evaluate_unit(
    predictions: pa.Table,
    certificates: pa.Table,
    labels: pa.Table,
    ranks: pa.Table,
    *,
    settings: EvaluationSettings,
    unit: tuple[str, str, int] | None = None,
) -> pa.Table:
    """Return the long table of every metric of one unit.

    Args:
        predictions: the train stage's file: split, label, predicted, proba.
        certificates: one row an audited case; at least the columns dataset, model, seed, case_id,
            split, is_uniform, confidence, true_label, predicted, is_saturated, flip_budget, rcma,
            fds, forward_rows, group_order, path_margin and the ``lambda_*`` columns.
        labels: case_id and one boolean column a label rule.
        ranks: case_id and ``<score>_paper``, ``<score>_risk`` for each score of
            `cfc.ranking.SCORES` that the file holds. Columns of later scores are taken too. Where
            a score is null it was not computed: its metrics are over the cases that have it, and
            ``n`` says how many.
        settings: see `EvaluationSettings`.
        unit: (dataset, model, seed), needed only when ``certificates`` has no row.

    Returns:
        a table of schema `SCHEMA`, in a fixed row order.

    Raises:
        ArtifactError: a column or a case is missing, or the certificates mix units.
    """
    unit = unit or _unit_of(certificates)
    rows = [
        *_predictive_rows(predictions),
        *_certificate_rows(certificates),
        *_cost_rows(certificates, settings),
        *_brittle_rows(certificates, labels, ranks, settings),
    ]
    return metric_table(rows, unit)


def evaluate_ranking(
    certificates: pa.Table,
    labels: pa.Table,
    ranks: pa.Table,
    *,
    settings: EvaluationSettings,
    unit: tuple[str, str, int],
    not_applicable: str | None = None,
) -> pa.Table:
    """Return only the ranking metrics (family ``brittle``), for labels of another origin.

    Args:
        certificates, labels, ranks, settings, unit: as in `evaluate_unit`.
        not_applicable: a reason why no value exists whatever the labels say.
    """
    rows = list(_brittle_rows(certificates, labels, ranks, settings))
    if not_applicable:
        rows = [row | {"value": None, "reason": not_applicable} for row in rows]
    return metric_table(rows, unit)


def metric_table(rows: list[dict], unit: tuple[str, str, int]) -> pa.Table:
    """Return rows of metrics as a table of schema `SCHEMA`; keys a row lacks are null."""
    columns = {name: [row.get(name) for row in rows] for name in SCHEMA.names[3:]}
    columns |= {name: [part] * len(rows) for name, part in zip(SCHEMA.names, unit, strict=False)}
    return pa.table({name: columns[name] for name in SCHEMA.names}, schema=SCHEMA)


def metric_row(family: str, metric: str, value: float, n: int, **keys) -> dict[str, Any]:
    """Return one row; ``nan`` becomes null, with ``reason=`` (see `SCHEMA` for other keys)."""
    return _row(family, metric, value, n, **keys)


def _unit_of(certificates: pa.Table) -> tuple[str, str, int]:
    found = {
        tuple(row.values())
        for row in certificates.select(["dataset", "model", "seed"])
        .group_by(["dataset", "model", "seed"])
        .aggregate([])
        .to_pylist()
    }
    if len(found) != 1:
        raise ArtifactError(
            f"the certificates hold {len(found)} units {sorted(found)}: evaluate one unit at a "
            "time, and pass `unit` when its certificate file has no row"
        )
    return found.pop()


def _row(
    family: str,
    metric: str,
    value: float,
    n: int,
    *,
    n_positive: int | None = None,
    reason: str | None = None,
    **keys: str | None,
) -> dict[str, Any]:
    """Build one row; a ``nan`` becomes a null that must have a reason, a value has none."""
    undefined = bool(np.isnan(value))
    return {
        "family": family,
        "metric": metric,
        "value": None if undefined else float(value),
        "n": int(n),
        "n_positive": None if n_positive is None else int(n_positive),
        "reason": (reason or "not defined on these cases") if undefined else None,
        **keys,
    }


def _predictive_rows(predictions: pa.Table) -> Iterator[dict]:
    test = to_numpy(predictions["split"]) == "test"
    label = to_numpy(predictions["label"])[test].astype(np.int64)
    predicted = to_numpy(predictions["predicted"])[test].astype(np.int64)
    proba = lists_to_matrix(predictions["proba"])[test]
    n = len(label)
    reason = _predictive_reason(label, proba)
    values = {
        "auroc": lambda: metrics.auroc_macro(proba, label),
        "accuracy": lambda: metrics.accuracy(predicted, label),
        "macro_f1": lambda: metrics.macro_f1(predicted, label),
        "average_precision": lambda: metrics.average_precision_macro(proba, label),
        "nll": lambda: metrics.nll(proba, label),
        "ece": lambda: metrics.ece(proba[np.arange(n), predicted], predicted == label),
        "brier": lambda: metrics.brier(proba, label),
    }
    for metric, compute in values.items():
        yield _row("predictive", metric, compute() if n else np.nan, n, reason=reason)


def _predictive_reason(label: np.ndarray, proba: np.ndarray) -> str:
    if not len(label):
        return "no test case"
    absent = sorted(set(range(proba.shape[1])) - set(label.tolist()))
    return f"no test case of class {', '.join(map(str, absent))}"


def _certificate_rows(certificates: pa.Table) -> Iterator[dict]:
    chosen = (to_numpy(certificates["split"]) == "test") & to_numpy(
        certificates["is_uniform"]
    ).astype(bool)
    n = int(chosen.sum())
    rcma, budget, fds, saturated = (
        to_numpy(certificates[name])[chosen].astype(np.float64)
        for name in ("rcma", "flip_budget", "fds", "is_saturated")
    )
    values = {
        "mean_rcma": lambda: rcma.mean(),
        # RCMA divides by |m(x)|: one case near the decision boundary can carry the whole mean.
        "median_rcma": lambda: np.median(rcma),
        "mean_flip_budget": lambda: budget.mean(),
        "mean_fds": lambda: fds.mean(),
        "share_flip_budget_1": lambda: (budget == 1).mean(),
        "share_saturated": lambda: saturated.mean(),
    }
    for metric, compute in values.items():
        value = compute() if n else np.nan
        yield _row("certificate", metric, value, n, reason="no case in the uniform test sample")


def _cost_rows(certificates: pa.Table, settings: EvaluationSettings) -> Iterator[dict]:
    n = certificates.num_rows
    made = to_numpy(certificates["forward_rows"]).astype(np.float64)
    values = {"forward_rows_formula": np.nan, "forward_rows_mean": np.nan}
    if n:
        groups = lists_width(certificates["group_order"])
        depth = lists_width(certificates["path_margin"]) - 1
        operators = sum(name.startswith("lambda_") for name in certificates.column_names)
        values["forward_rows_formula"] = forward_rows(
            groups, depth, settings.order, operators * settings.n_severities
        )
        values["forward_rows_mean"] = made.mean()
    values["forward_rows_total"] = made.sum()
    for metric, value in values.items():
        yield _row("cost", metric, value, n, reason="no audited case")


def lists_width(column: pa.ChunkedArray) -> int:
    """Return the length every list of a column has.

    Raises:
        ArtifactError: the lists differ in length.
    """
    import pyarrow.compute as pc

    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) != 1:
        raise ArtifactError(f"a list column has lists of different lengths {sorted(lengths)}")
    return lengths[0]


def _brittle_rows(
    certificates: pa.Table, labels: pa.Table, ranks: pa.Table, settings: EvaluationSettings
) -> Iterator[dict]:
    confident = (to_numpy(certificates["split"]) == "test") & (
        to_numpy(certificates["confidence"]) >= settings.tau_p
    )
    case_id = to_numpy(certificates["case_id"])[confident]
    predicted = to_numpy(certificates["predicted"])[confident]
    is_wrong = predicted != to_numpy(certificates["true_label"])[confident]
    label_rows = _positions(labels, case_id, "label")
    rank_rows = _positions(ranks, case_id, "rank")
    scores = {
        (name, sign): _score(ranks, f"{name}_{sign}")[rank_rows]
        for name in score_names(ranks)
        for sign in SIGNS
    }
    yield from _false_conf_rows(scores, is_wrong, settings)
    for rule in settings.label_rules:
        label = _column(labels, rule, "label")[label_rows].astype(bool)
        yield from _rule_rows(rule, label, settings)
        for (score, sign), values in scores.items():
            for row in _ranking_rows(values, label, predicted, settings):
                yield row | {"label_rule": rule, "score": score, "sign": sign}


def score_names(ranks: pa.Table) -> list[str]:
    """Return the scores a rank file holds: the declared ones in their order, then any others."""
    held = [name[: -len("_risk")] for name in ranks.column_names if name.endswith("_risk")]
    return in_order(held)


def _false_conf_rows(scores: dict, is_wrong: np.ndarray, settings: EvaluationSettings):
    """Rank the wrong confident predictions; no label rule enters, so ``label_rule`` is null."""
    q = settings.false_conf_budget
    for (score, sign), values in scores.items():
        held = ~np.isnan(values)
        wrong = is_wrong[held]
        reason = _reason_on(held, wrong, settings, "wrong")
        value = np.nan if reason else metrics.false_conf_captured(values[held], wrong, q)
        yield _row(
            "brittle",
            false_conf_metric(q),
            value,
            len(wrong),
            n_positive=wrong.sum(),
            reason=reason,
            score=score,
            sign=sign,
        )


def _rule_rows(rule: str, label: np.ndarray, settings: EvaluationSettings) -> Iterator[dict]:
    """Yield what depends on the labels alone: base rate and capture ceilings."""
    n, positive = len(label), int(label.sum())
    reason = undefined_reason(label, settings)
    rate = positive / n if n else np.nan
    yield _row(
        "brittle",
        "base_rate",
        rate,
        n,
        n_positive=positive,
        reason="no high-confidence case",
        label_rule=rule,
    )
    for q in settings.budgets:
        value = np.nan if reason else metrics.capture_ceiling(rate, q)
        yield _row(
            "brittle",
            ceiling_metric(q),
            value,
            n,
            n_positive=positive,
            reason=reason,
            label_rule=rule,
        )


def _ranking_rows(
    score: np.ndarray, label: np.ndarray, predicted: np.ndarray, settings: EvaluationSettings
) -> Iterator[dict]:
    held = ~np.isnan(score)
    score, label, predicted = score[held], label[held], predicted[held]
    n, positive = len(label), int(label.sum())
    reason = _reason_on(held, label, settings)
    budgets = np.array([*settings.budgets, *settings.curve_budgets])
    names = [
        "auroc",
        "aurc",
        *map(capture_metric, settings.budgets),
        *map(curve_metric, settings.curve_budgets),
    ]
    if reason:
        values = np.full(len(names), np.nan)
    else:
        captured = metrics.capture_curve(score, label, budgets)
        values = [metrics.auroc(score, label), metrics.aurc(score, label), *captured]
    for metric, value in zip(names, values, strict=True):
        yield _row("brittle", metric, value, n, n_positive=positive, reason=reason)
    within, used = metrics.auroc_within_class(
        score,
        label,
        predicted,
        min_positive=settings.min_positive,
        min_negative=settings.min_negative,
    )
    yield _row(
        "brittle",
        "auroc_within_class",
        within,
        used,
        n_positive=None,
        reason=reason
        or f"no predicted class with {settings.min_positive} brittle and "
        f"{settings.min_negative} non-brittle cases",
    )


def undefined_reason(
    label: np.ndarray, settings: EvaluationSettings, kind: str = "brittle"
) -> str | None:
    """Return why a ranking metric is undefined on these cases, or None when it is defined.

    Args:
        label: bool [n] over the high-confidence cases.
        settings: holds the minimum counts.
        kind: what a positive case is called.
    """
    n, positive = len(label), int(np.sum(label))
    negative = n - positive
    if n == 0:
        return "no high-confidence case"
    if positive == 0:
        return f"no {kind} case of {n}"
    if negative == 0:
        return f"only {kind} cases ({n})"
    if positive < settings.min_positive:
        return f"only {positive} {kind} case{'s' * (positive > 1)} of {n}"
    if negative < settings.min_negative:
        return f"only {negative} non-{kind} case{'s' * (negative > 1)} of {n}"
    return None


def _reason_on(
    held: np.ndarray, label: np.ndarray, settings: EvaluationSettings, kind: str = "brittle"
) -> str | None:
    """Return `undefined_reason` on the cases that have a score, which may be none of many."""
    if len(held) and not len(label):
        return f"the score was computed for none of {len(held)} high-confidence cases"
    return undefined_reason(label, settings, kind)


def _score(table: pa.Table, name: str) -> np.ndarray:
    """Return a score as float64 [n], ``nan`` where the file has a null."""
    if name not in table.column_names:
        raise ArtifactError(f"the rank file has no column {name}; rerun the rank stage")
    values = to_numpy(table[name]).astype(np.float64)
    if np.isnan(values).sum() > table[name].null_count:
        raise ArtifactError(f"column {name} of the rank file holds NaN; rerun the rank stage")
    return values


def _column(table: pa.Table, name: str, stage: str) -> np.ndarray:
    if name not in table.column_names:
        raise ArtifactError(f"the {stage} file has no column {name}; rerun the {stage} stage")
    column = table[name]
    if column.null_count:
        raise ArtifactError(f"column {name} of the {stage} file holds {column.null_count} nulls")
    return to_numpy(column)


def _positions(table: pa.Table, case_id: np.ndarray, stage: str) -> np.ndarray:
    """Return the row of each case in a file, whatever its row order."""
    held = _column(table, "case_id", stage)
    order = np.argsort(held, kind="stable")
    at = np.searchsorted(held, case_id, sorter=order)
    rows = order[np.minimum(at, len(held) - 1)] if len(held) else np.empty(0, dtype=np.int64)
    missing = case_id if not len(held) else case_id[held[rows] != case_id]
    if len(missing):
        raise ArtifactError(
            f"{len(missing)} certified high-confidence cases are not in the {stage} file "
            f"(first: {missing[0]}); rerun the {stage} stage for this unit"
        )
    return rows
