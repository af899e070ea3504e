"""Table ``search_gap``: the removal path against exact and beam search (paper, Table 7)."""

import numpy as np
import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import (
    METRIC_KEYS,
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

TITLE = "Removal path against exact and beam search"
ORDERS = {"static": "static (sorted once)", "greedy": "greedy (re-evaluated)"}
EXACT = {
    "exact_match": "ExactMatch",
    "greedy_over": "GreedyOver",
    "mean_gap": "MeanGap",
    "mean_positive_gap": "mean positive gap",
    "pair_miss": "PairMiss",
}
GIVEN = {
    "exact_match_given_flip": "ExactMatch",
    "greedy_over_given_flip": "GreedyOver",
    "mean_gap_given_flip": "MeanGap",
    "pair_miss_given_pair": "PairMiss of pairs",
}
BEAM = {
    "beam_improve_larger": "BeamImprove, larger audits",
    "beam_improve": "BeamImprove, all",
    "beam_worse": "beam above k*",
}
EXISTING = {"exact_flip": "an exact flip exists", "exact_pair": "smallest set is a pair"}


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table.

    Data: every metric at levels unit, dataset, aggregate (see `cfc.tables.base.aggregate`), and
    ``pooled_dataset`` and ``pooled``: over all cases of the units together, as the paper counts,
    with n the number of cases and n_positive those that count.
    """
    units = Units(rows, expected)
    metrics = [*EXACT, *GIVEN, *BEAM]
    unit_rows = pd.concat(
        [
            units.select("search", metrics, score=list(ORDERS)),
            units.select("search", list(EXISTING)),
        ],
        ignore_index=True,
    )
    data = pd.concat(
        [
            aggregate(unit_rows),
            _pooled(unit_rows, ["dataset", *METRIC_KEYS]).assign(level="pooled_dataset"),
            _pooled(unit_rows, METRIC_KEYS).assign(level="pooled"),
        ],
        ignore_index=True,
    )
    for name in ("dataset", "model", "reason"):
        data[name] = data[name].astype(object).where(data[name].notna(), "")
    displays = [
        ("All cases together, as the paper counts", _pooled_display(data, EXACT | BEAM)),
        ("Of the cases with an exact flip within the depth searched", _given_display(data)),
        ("Mean over units, then data sets", _mean_display(data)),
        *[
            (f"By data set, {title}", _dataset_display(data, units, order))
            for order, title in ORDERS.items()
        ],
    ]
    notes = units.notes()
    one = pick(unit_rows, score="static")
    notes += undefined_notes(pick(one, metric="exact_match"), "Exact search")
    notes += undefined_notes(pick(one, metric="beam_improve"), "Beam search")
    notes += NOTES
    return units.result("search_gap", TITLE, context, data, displays, notes)


NOTES = [
    "Cases: a seeded sample of a unit's confident audited cases. Exact search looks at all sets "
    "of groups by increasing size, up to 5 groups or the audit depth K, and is made where no more "
    "than 20,000 such sets exist (the values of the configuration may differ); elsewhere, on "
    "larger audits, only beam search is made.",
    "Where exact search stops at D < K groups, `no flip up to D` is one outcome for the path and "
    "for the search alike: both are compared as audits of depth D. Gaps are then lower bounds of "
    "those at depth K.",
    "ExactMatch + GreedyOver = 1: the first k groups of the path are one of the sets of size k, so "
    "k* below the exact value is impossible. The paper prints 86.9 % and 9.2 %, which add up to "
    "96.1 %.",
    "MeanGap: mean of k* − k over all cases (eq. 25); mean positive gap: over the cases where it "
    "is above 0. PairMiss: the exact value is 2 and k* is above 2 (eq. 26).",
    "BeamImprove: beam search (width 10 unless configured) meets a flip at fewer groups than k*; "
    "`beam above k*`: it needs more, which a beam that drops the path's own sets can.",
]


def _pooled(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return, over the cases of all units together, the mean, the cases and those that count."""
    defined = rows[rows["value"].notna()]
    frame = defined.assign(total=defined["value"] * defined["n"])
    sums = frame.groupby(keys, sort=False)[["total", "n", "n_positive"]].sum(min_count=1)
    out = rows.groupby(keys, sort=False)["value"].agg(n_defined="count", size="size").reset_index()
    out["n_undefined"] = out.pop("size") - out["n_defined"]
    out = out.merge(sums.reset_index(), on=keys, how="left")
    out["value"] = out.pop("total") / out["n"].replace(0, np.nan)
    return out


def _cell(row: pd.Series) -> str:
    if pd.isna(row["value"]):
        return number(None)
    return f"{number(row['value'])} (n = {int(row['n']):,})"


def _pooled_display(data: pd.DataFrame, metrics: dict[str, str]) -> pd.DataFrame:
    top = pick(data, level="pooled")
    lines = []
    for metric, title in metrics.items():
        cells = [_cell(pick(top, metric=metric, score=order).iloc[0]) for order in ORDERS]
        lines.append([title, *cells])
    return pd.DataFrame(lines, columns=["", *ORDERS.values()])


def _given_display(data: pd.DataFrame) -> pd.DataFrame:
    frame = _pooled_display(data, GIVEN)
    top = pick(data, level="pooled", score="")
    for metric, title in EXISTING.items():
        cell = _cell(pick(top, metric=metric).iloc[0])
        frame.loc[len(frame)] = [f"share of audits: {title}", *[cell] * len(ORDERS)]
    return frame


def _mean_display(data: pd.DataFrame) -> pd.DataFrame:
    top = pick(data, level="aggregate")
    lines = []
    for metric, title in (EXACT | BEAM).items():
        own = [pick(top, metric=metric, score=order).iloc[0] for order in ORDERS]
        counts = defined_text(own[0]["n_defined"], own[0]["n_undefined"])
        lines.append([title, *[number(row["value"]) for row in own], counts])
    return pd.DataFrame(lines, columns=["", *ORDERS.values(), "units"])


def _dataset_display(data: pd.DataFrame, units: Units, order: str) -> pd.DataFrame:
    pooled = pick(data, level="pooled_dataset", score=order)
    lines = []
    for dataset in units.datasets:
        own = pick(pooled, dataset=dataset).set_index("metric")
        audits = own.loc["exact_match", "n"]
        lines.append(
            [
                dataset,
                *[number(own.loc[metric, "value"]) for metric in EXACT],
                f"{0 if pd.isna(audits) else int(audits):,}",
                number(own.loc["beam_improve", "value"]),
                f"{0 if pd.isna(n := own.loc['beam_improve', 'n']) else int(n):,}",
            ]
        )
    columns = ["data set", *EXACT.values(), "exact audits", "BeamImprove", "beam audits"]
    return pd.DataFrame(lines, columns=columns)
