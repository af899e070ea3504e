"""Table ``thresholds``: what the label's thresholds do to the ranking (paper, Appendix K and O)."""

import re

import pandas as pd

from cfc.evaluate import EvaluationSettings, share_text
from cfc.ranking import SIGNS, in_order
from cfc.tables.base import (
    METRIC_KEYS,
    TableContext,
    TableResult,
    Unit,
    Units,
    aggregate,
    confidence_names,
    defined_text,
    number,
    pick,
    score_signs,
    score_title,
    undefined_notes,
)

TITLE = "Thresholds of confidence and collapse"
_CELL = re.compile(r"base_rate@([\d.]+)/([\d.]+)")
_STEP = re.compile(r"selective_risk@([\d.]+)")
# single units are kept for these scores alone: the others' rows would be many
_UNIT_SCORES = ("", "fds")


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table.

    Data: metrics base_rate and auroc with the columns tau_p and tau_kappa; selective_risk and
    coverage with the confidence threshold in tau_p; each as `cfc.tables.base.aggregate`.
    """
    units = Units(rows, expected)
    cells = _found(units, "thresholds", _CELL) or [(settings.tau_p, 0.5)]
    steps = _found(units, "selective", _STEP) or [(settings.tau_p,)]
    own = units.frame[units.frame["family"] == "thresholds"]
    scores = in_order([*(name for name in own["score"].unique() if name), "fds"])
    pairs = score_signs(scores)
    parts, default = [], []
    for tau_p, tau_kappa in cells:
        rates, aurocs = _cell_rows(units, settings, scores, pairs, tau_p, tau_kappa)
        both = pd.concat([rates, aurocs], ignore_index=True)
        parts.append(aggregate(both).assign(tau_p=tau_p, tau_kappa=tau_kappa))
        if abs(tau_p - settings.tau_p) < 1e-9:
            default.append((tau_kappa, aurocs))
    for (threshold,) in steps:
        both = units.select(
            "selective", [f"selective_risk@{threshold:.3f}", f"coverage@{threshold:.3f}"]
        )
        parts.append(aggregate(both).assign(tau_p=threshold))
    data = pd.concat(parts, ignore_index=True)
    data["metric"] = data["metric"].str.partition("@")[0]
    data = data[(data["level"] != "unit") | data["score"].isin(_UNIT_SCORES)]
    data = data.reset_index(drop=True)
    for name in ("dataset", "model", "reason", *METRIC_KEYS):
        data[name] = data[name].astype(object).where(data[name].notna(), "")
    displays = [
        (f"Label rule `{rule}`", _display(data, rule, pairs, cells))
        for rule in settings.label_rules
    ]
    displays.append(("Selective risk of the predictions", _selective_display(data, units)))
    notes = units.notes()
    for tau_kappa, aurocs in default[len(default) // 2 :][:1]:
        for rule in settings.label_rules:
            one = pick(aurocs, label_rule=rule, score="fds", sign="risk")
            notes += undefined_notes(
                one, f"Label rule `{rule}`, τ_p = {settings.tau_p:g}, τ_κ = {tau_kappa:g}"
            )
    notes += [
        "Cases: audited test cases with confidence at or above τ_p. τ_κ is the collapse that "
        "counts as failing; a rule that looks at flips alone does not use it. "
        f"A unit needs at least {settings.min_positive} brittle and {settings.min_negative} other "
        "cases; means over the defined units of a data set, then over data sets, so cells may be "
        "means over different units (last column).",
        "Best confidence: of the confidence scores in that sign, the one with the highest mean in "
        "the cell.",
        "Selective risk: error rate of the test predictions with confidence at or above the "
        "threshold; coverage: their share. Means over units, then data sets.",
    ]
    return units.result("thresholds", TITLE, context, data, displays, notes)


def _found(units: Units, family: str, pattern: re.Pattern) -> list[tuple[float, ...]]:
    names = units.frame.loc[units.frame["family"] == family, "metric"].unique()
    matches = [match for name in names if (match := pattern.fullmatch(name))]
    return sorted(tuple(map(float, match.groups())) for match in matches)


def _cell_rows(units: Units, settings, scores, pairs, tau_p, tau_kappa):
    at = f"{share_text(tau_p)}/{share_text(tau_kappa)}"
    rates = units.select("thresholds", [f"base_rate@{at}"], label_rule=settings.label_rules)
    aurocs = units.select(
        "thresholds",
        [f"auroc@{at}"],
        label_rule=settings.label_rules,
        score=scores,
        sign=SIGNS,
    )
    kept = [pair in pairs for pair in zip(aurocs["score"], aurocs["sign"], strict=True)]
    return rates, aurocs[kept].reset_index(drop=True)


def best_confidence(cell: pd.DataFrame, sign: str) -> pd.Series | None:
    """Return the aggregate row of the best confidence score of a cell, None if undefined.

    Args:
        cell: aggregate rows of one label rule and cell, metric auroc.
        sign: ``risk`` or ``paper``.
    """
    names = confidence_names(list(dict.fromkeys(cell["score"])))
    own = cell[cell["score"].isin(names) & (cell["sign"] == sign) & cell["value"].notna()]
    if own.empty:
        return None
    best = own["value"].max()
    return own[own["value"] >= best - 1e-12].iloc[0]


def _display(data: pd.DataFrame, rule: str, pairs, cells) -> pd.DataFrame:
    others = [p for p in pairs if p[0] not in confidence_names([s for s, _ in pairs])]
    # a bar would end a Markdown cell in the heading; m >= 0 for the unstressed prediction
    titles = [score_title(*pair).replace("|m|", "m") for pair in others]
    columns = ["τ_p", "τ_κ", "base rate", *titles]
    columns += ["best confidence, risk sign", "best confidence, paper sign", "units"]
    lines = []
    at_rule = pick(data, level="aggregate", label_rule=rule)
    for tau_p, tau_kappa in cells:
        at = pick(at_rule, tau_p=tau_p, tau_kappa=tau_kappa)
        auroc = pick(at, metric="auroc")
        best = [best_confidence(auroc, sign) for sign in SIGNS[::-1]]
        fds = pick(auroc, score="fds", sign="risk").iloc[0]
        lines.append(
            [
                f"{tau_p:g}",
                f"{tau_kappa:g}",
                number(pick(at, metric="base_rate").iloc[0]["value"]),
                *[number(pick(auroc, score=s, sign=g).iloc[0]["value"]) for s, g in others],
                *[number(None if row is None else row["value"]) for row in best],
                defined_text(fds["n_defined"], fds["n_undefined"]),
            ]
        )
    return pd.DataFrame(lines, columns=columns)


def _selective_display(data: pd.DataFrame, units: Units) -> pd.DataFrame:
    lines = []
    top = pick(data, level="aggregate", metric="selective_risk")
    for row in top.itertuples(index=False):
        own = pick(data, level="dataset", metric="selective_risk", tau_p=row.tau_p)
        own = own.set_index("dataset")["value"]
        coverage = pick(data, level="aggregate", metric="coverage", tau_p=row.tau_p).iloc[0]
        lines.append(
            [
                f"{row.tau_p:g}",
                number(row.value, 4),
                number(coverage["value"]),
                *[number(own.get(d), 4) for d in units.datasets],
                defined_text(row.n_defined, row.n_undefined),
            ]
        )
    columns = ["confidence at least", "risk", "coverage", *units.datasets, "units"]
    return pd.DataFrame(lines, columns=columns)
