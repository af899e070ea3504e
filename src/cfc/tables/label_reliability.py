"""Table ``label_reliability``: how far a label repeats itself, and the AUROC that allows."""

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
    undefined_notes,
)

TITLE = "Reliability of the brittle labels and the ceiling it sets"
METRICS = {
    "base_rate": "base rate",
    "agreement": "agreement",
    "kappa": "Cohen's κ",
    "ceiling_beta": "AUROC ceiling (Beta)",
    "ceiling_bound": "AUROC bound",
    "auroc_fresh": "AUROC of fresh draws",
    "auroc_fds": "AUROC of FDS",
    "auroc_one_step_sum": "AUROC of one-step sum",
}


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table; every metric of `METRICS` at every level, by label rule."""
    units = Units(rows, expected)
    unit_rows = units.select("reliability", list(METRICS), label_rule=settings.label_rules)
    data = aggregate(unit_rows)
    displays = [("Mean over units, then data sets", _display(data, settings))]
    displays += [
        (f"{METRICS[metric]} by data set", _by_dataset(data, units, settings, metric))
        for metric in ("kappa", "ceiling_beta")
    ]
    notes = units.notes()
    for rule in settings.label_rules:
        one = pick(unit_rows, label_rule=rule, metric="kappa")
        notes += undefined_notes(one, f"Label rule `{rule}`")
    notes += [
        "Two labels of the same confident cases are made under one rule from disjoint draws. An "
        "`any_draw` rule that looks at n draws gets the first n and the next n. A rule over all "
        "draws gets half of them each time: its own label, made from all, repeats itself better "
        "than κ says.",
        "Ceiling: let π be the chance that fresh draws call a case brittle and p its mean. "
        "κ = Var(π) / (p (1 − p)), and no score blind to the draws has an expected AUROC above "
        "½ + E|π − π'| / (4 p (1 − p)), π' being that of another case. `Beta` takes π as Beta "
        "distributed with that mean and variance; `bound` holds for any distribution, by "
        "E|π − π'| ≤ 2 sd(π) / √3.",
        "Fresh draws: AUROC, on the first label, of the outcome graded over the draws that label "
        "did not see: what the stress itself, repeated, would reach. FDS and one-step sum, "
        "(max δ + Σδ⁺)/|m|: on the same first label.",
        f"κ and ceilings need at least {settings.min_positive} brittle and "
        f"{settings.min_negative} other cases under both labels.",
    ]
    return units.result("label_reliability", TITLE, context, data, displays, notes)


def _display(data: pd.DataFrame, settings: EvaluationSettings) -> pd.DataFrame:
    lines = []
    for rule in settings.label_rules:
        own = pick(data, level="aggregate", label_rule=rule).set_index("metric")
        counts = own.loc["kappa", ["n_defined", "n_undefined"]]
        lines.append([rule, *[number(own.loc[m, "value"]) for m in METRICS], defined_text(*counts)])
    return pd.DataFrame(lines, columns=["label rule", *METRICS.values(), "units"])


def _by_dataset(data: pd.DataFrame, units: Units, settings, metric: str) -> pd.DataFrame:
    lines = []
    for rule in settings.label_rules:
        own = pick(data, level="dataset", label_rule=rule, metric=metric)
        own = own.set_index("dataset")["value"]
        lines.append([rule, *[number(own.get(d)) for d in units.datasets]])
    return pd.DataFrame(lines, columns=["label rule", *units.datasets])
