"""Table ``cost``: forward rows by formula and as counted, and time, per stage (Table 3)."""

import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import (
    UNDEFINED,
    UNIT_KEYS,
    TableContext,
    TableResult,
    Unit,
    Units,
    number,
    pick,
    undefined_notes,
)

TITLE = "Cost of certificates and held-out stress"
FORMULAS = {
    "certify": "1 + G + (K − 1) + |P||Λ| rows a case",
    "stress": "the sum over operators of severities × draws, rows a high-confidence case",
    "exposure": "1 + the sum over groups of grid points, rows a case",
    "transfer": "the sum over operators of severities × (draws + 1), rows a high-confidence case",
}
# Fitting is no forward pass: its time is no overhead of the scoring beside it.
_NO_OVERHEAD = ("train",)


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table.

    Data: level (unit, family), stage, the unit keys, and metric/value pairs. Counts depend on
    the artifacts alone; every value in seconds may differ from run to run.
    """
    units = Units(rows, expected)
    metrics = ["forward_rows_formula", "forward_rows_mean", "forward_rows_total"]
    counted = units.select("cost", metrics).assign(stage="certify")
    timed = _timed(context.timings, units)
    unit_rows = pd.concat([counted, timed], ignore_index=True)
    columns = ["stage", *UNIT_KEYS, "metric", "value", "reason"]
    unit_rows = unit_rows.reindex(columns=columns)
    families = _families(unit_rows)
    data = pd.concat([unit_rows.assign(level="unit"), families], ignore_index=True)
    data = data[["level", *columns, "n_defined"]]
    data[["dataset", "model"]] = data[["dataset", "model"]].astype(object).fillna("")
    displays = [("Forward rows a case", _rows_display(families, units))]
    if not timed.empty:
        displays.append(("Time a unit, mean over data sets and seeds", _time(families, units)))
    notes = units.notes()
    notes += undefined_notes(pick(counted, metric="forward_rows_mean"), "Forward rows")
    stages = {"certify", "stress", *timed["stage"]}
    notes += [f"Formula of {stage}: {text}." for stage, text in FORMULAS.items() if stage in stages]
    notes.append(
        "Made: rows really sent to the model; states that coincide are sent once, so it can stay "
        "below the formula. Both are means over cases, then seeds, then data sets. The "
        "made rows of stress hold one more a case: the case itself."
    )
    notes.append(_time_note(context.timings, timed, units))
    return units.result("cost", TITLE, context, data, displays, notes)


def _timed(timings: pd.DataFrame | None, units: Units) -> pd.DataFrame:
    columns = ["stage", *UNIT_KEYS, "metric", "value"]
    if timings is None or timings.empty:
        return pd.DataFrame(columns=columns).astype({"value": "float64"})
    keep = pd.MultiIndex.from_frame(timings[UNIT_KEYS]).isin(units.expected)
    frame = timings[keep].copy()
    spent = frame["seconds"].where(~frame["stage"].isin(_NO_OVERHEAD))
    frame["overhead_seconds"] = spent - frame["model_seconds"]
    frame["overhead_share"] = frame["overhead_seconds"] / spent.where(spent > 0)
    frame = frame.rename(columns={"forward_rows": "forward_rows_timed"})
    metrics = ["seconds", "model_seconds", "overhead_seconds", "overhead_share"]
    metrics += ["forward_rows_timed"]
    if "cases" in frame:
        frame["rows_per_case_made"] = frame["forward_rows_timed"] / frame["cases"].where(
            frame["cases"] > 0
        )
    metrics += [c for c in ("rows_per_case", "rows_per_case_made") if c in frame]
    long = frame.melt(["stage", *UNIT_KEYS], metrics, "metric", "value")
    return long.astype({"value": "float64"})[columns]


def _families(unit_rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over seeds, then over data sets, per stage, family and metric."""
    by_set = unit_rows.groupby(["stage", "metric", "model", "dataset"], sort=False)["value"]
    per_set = by_set.agg(value="mean", n_defined="count").reset_index()
    grouped = per_set.groupby(["stage", "metric", "model"], sort=False)
    out = grouped.agg(value=("value", "mean"), n_defined=("n_defined", "sum")).reset_index()
    return out.assign(level="family")


def _rows_display(families: pd.DataFrame, units: Units) -> pd.DataFrame:
    lines = []
    for stage in FORMULAS:
        at = pick(families, stage=stage).set_index(["model", "metric"])["value"]
        names = ("forward_rows_formula", "forward_rows_mean")
        if stage != "certify":
            names = ("rows_per_case", "rows_per_case_made")
        for model in units.models:
            formula, made = (at.get((model, name)) for name in names)
            if formula is None and made is None:
                continue
            both = pd.notna(formula) and pd.notna(made)
            ratio = made / formula if both else None
            cells = [number(formula, 1), number(made, 1), number(ratio, 3)]
            lines.append([f"{stage}: {model}", *cells])
    return pd.DataFrame(lines, columns=["stage: family", "formula", "made", "made / formula"])


def _time(families: pd.DataFrame, units: Units) -> pd.DataFrame:
    stages = list(dict.fromkeys(pick(families, metric="seconds")["stage"]))
    lines = []
    for stage in stages:
        at = pick(families, stage=stage).set_index(["model", "metric"])["value"]
        for model in units.models:
            if (model, "seconds") not in at.index:
                continue
            share = at.get((model, "overhead_share"))
            rows = at.get((model, "forward_rows_timed"))
            lines.append(
                [
                    f"{stage}: {model}",
                    UNDEFINED if pd.isna(rows) else f"{rows:,.0f}",
                    number(at.get((model, "seconds")), 2),
                    number(at.get((model, "model_seconds")), 2),
                    number(at.get((model, "overhead_seconds")), 2),
                    UNDEFINED if pd.isna(share) else f"{share:.0%}",
                ]
            )
    columns = ["stage: family", "rows made", "seconds", "model seconds", "overhead"]
    return pd.DataFrame(lines, columns=[*columns, "overhead share"])


def _time_note(timings: pd.DataFrame | None, timed: pd.DataFrame, units: Units) -> str:
    if timed.empty:
        return "No timing was collected for this run, so no time is shown."
    seen = set(map(tuple, timed[UNIT_KEYS].drop_duplicates().itertuples(index=False)))
    return (
        f"Times: {len(seen)} of {len(units.expected)} units timed; they differ from run to run "
        "and machine to machine. Overhead: wall time of the stage outside the model's own "
        "predict calls. For train, seconds is fitting and model seconds is scoring all rows."
    )
