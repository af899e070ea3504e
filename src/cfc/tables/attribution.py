"""Table ``attribution``: the certificate against attribution and simple orders (Table 16)."""

import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import (
    TableContext,
    TableResult,
    Unit,
    Units,
    aggregate,
    defined_text,
    number,
    pick,
    select_ranking,
    undefined_notes,
)
from cfc.tables.brittle_auroc import auroc_grid, ranking_notes, rates_grid
from cfc.tables.paired import (
    comparison_display,
    comparison_notes,
    comparisons,
    defined_pairs,
    joined_data,
)

TITLE = "Certificate, attribution and simple orders of removal on the same cases"
OTHERS = (
    "random_order",
    "one_step",
    "permutation_order",
    "group_shap",
    "group_shap_top3",
    "one_step_relative",
    "one_step_sum",
)
PAIRS = tuple(("fds", other) for other in OTHERS)
ERRORS = {
    "relative_error": "sampling error of Shapley values",
    "additivity_error": "largest |Σφ − (m(x) − m(x̄))|",
    "share_exact": "share of cases with exact values",
}


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table from the metric files of the attribution stage.

    Data: metrics auroc, auroc_within_class and base_rate at every level over the attributed
    cases, the metrics `ERRORS` of the Shapley values, and the rows of
    `cfc.tables.paired.comparisons`.
    """
    units = Units(rows, expected)
    ranking = select_ranking(units, ["auroc", "auroc_within_class"], settings)
    rates = units.select("brittle", ["base_rate"], label_rule=settings.label_rules)
    errors = aggregate(units.select("attribution", list(ERRORS)))
    levels = pd.concat([aggregate(ranking), aggregate(rates)], ignore_index=True)
    gains = comparisons(ranking, defined_pairs(units, PAIRS), settings)
    displays = [
        (f"AUROC, label rule `{rule}`", auroc_grid(levels, units, rule))
        for rule in settings.label_rules
    ]
    displays.append(("Base rate of brittle cases", rates_grid(levels, units, settings)))
    if len(gains):
        displays.append(("Gain of FDS over each", comparison_display(gains, units)))
    displays.append(("Shapley values", _errors(errors, units)))
    notes = units.notes()
    for rule in settings.label_rules:
        one = pick(ranking, label_rule=rule, score="fds", sign="risk", metric="auroc")
        notes += undefined_notes(one, f"Label rule `{rule}`")
    notes += comparison_notes(gains, settings)
    notes += [
        "All scores are on the same cases: a seeded sample of the confident audited cases. Orders "
        "score a case by u along that order: several seeded random orders (mean), or groups by "
        "what shuffling them costs in validation log-loss, one order for all cases.",
        "Group-SHAP: Shapley values of the margin, a group being one player, an absent group the "
        "protocol's baseline, so signed effects within a group cancel; the score is the share of "
        "the largest (top 1) or the three largest (top 3) in Σ|φ|; with at most three groups top 3 "
        "is 1 for every case. Exact: from all states of the groups, or from the one-step drops of "
        "a two-class linear model; else sampled from orders in antithetic pairs, the error being "
        "sqrt(Σ se²) / Σ|φ|, mean over cases.",
        *ranking_notes(settings),
    ]
    data = joined_data(levels, errors, gains)
    return units.result("attribution", TITLE, context, data, displays, notes)


def _errors(errors: pd.DataFrame, units: Units) -> pd.DataFrame:
    lines = []
    for metric, title in ERRORS.items():
        own = pick(errors, metric=metric)
        at = pick(own, level="dataset").set_index("dataset")["value"]
        top = pick(own, level="aggregate").iloc[0]
        lines.append(
            [
                title,
                *[_small(at.get(d)) for d in units.datasets],
                _small(top["value"]),
                defined_text(top["n_defined"], top["n_undefined"]),
            ]
        )
    return pd.DataFrame(lines, columns=["", *units.datasets, "mean", "units"])


def _small(value) -> str:
    if value is None or pd.isna(value) or value == 0 or abs(value) >= 0.001:
        return number(value)
    return f"{value:.0e}"
