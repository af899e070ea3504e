"""Table ``ablation``: what each component of the certificate's score ranks alone (Table 10)."""

import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import (
    TableContext,
    TableResult,
    Unit,
    Units,
    defined_text,
    mark_best,
    number,
    pick,
    undefined_notes,
)
from cfc.tables.variants import (
    difference_cells,
    held_names,
    one,
    strongest_cells,
    variant_data,
)

TITLE = "Components of the certificate's score"
FULL = "full"
NAMES = {
    "flip_budget": "flip budget (1/k*)",
    "rcma": "RCMA",
    "degradation": "degradation thresholds",
    "flip_budget+rcma": "flip budget + RCMA",
    "flip_budget+degradation": "flip budget + degradation",
    "rcma+degradation": "RCMA + degradation",
    FULL: "full FDS",
}


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table; metric auroc of each component, and its difference to the full score."""
    units = Units(rows, expected)
    names = held_names(units, "ablation", [FULL])
    data, unit_rows = variant_data(
        units, settings, names, family="ablation", metrics=["auroc"], reference=FULL
    )
    displays = [
        (f"AUROC, label rule `{rule}`", _display(data, names, units, rule))
        for rule in settings.label_rules
    ]
    notes = units.notes()
    for rule in settings.label_rules:
        notes += undefined_notes(
            pick(unit_rows, label_rule=rule, score=FULL), f"Label rule `{rule}`"
        )
    notes += [
        f"Cases: audited test cases with confidence at or above {settings.tau_p:g}. Components "
        "are those of eq. 10, from the recorded certificates; a pair weighs both alike, the full "
        "score as the protocol declares.",
        "Differences are paired by unit; interval: percentile 95 %, bootstrap over units. The "
        "flip budget and the degradation thresholds take few values: their many ties count one "
        "half each.",
    ]
    return units.result("ablation", TITLE, context, data, displays, notes)


def _display(data: pd.DataFrame, names, units: Units, rule: str) -> pd.DataFrame:
    columns = ["score", "AUROC", *units.datasets, "− full", "95 % interval", "units"]
    top = [one(data, label_rule=rule, score=name, sign="", metric="auroc") for name in names]
    values = [row["value"] for row in top]
    marked = mark_best(values, [number(v) for v in values], larger_is_better=True)
    lines = []
    for name, row, text in zip(names, top, marked, strict=True):
        own = pick(data, level="dataset", label_rule=rule, score=name, sign="", metric="auroc")
        own = own.set_index("dataset")["value"]
        lines.append(
            [
                NAMES.get(name, name),
                text,
                *[number(own.get(d)) for d in units.datasets],
                *difference_cells(data, rule, name, "difference"),
                defined_text(row["n_defined"], row["n_undefined"]),
            ]
        )
    lines.append(strongest_cells(data, rule, len(columns)))
    return pd.DataFrame(lines, columns=columns)
