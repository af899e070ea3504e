"""Table ``calibration``: no, one global and a brittleness-aware temperature (paper, Table 17)."""

import numpy as np
import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.stages.calibrate import BINS, METHODS, SUBSETS
from cfc.tables.base import (
    UNDEFINED,
    UNIT_KEYS,
    TableContext,
    TableResult,
    Unit,
    Units,
    aggregate,
    mark_best,
    number,
    pick,
    undefined_notes,
)

TITLE = "Brittleness-aware temperature correction"
METRICS = ("ece", "brier", "nll", "share_label_changed")
TITLES = {
    "uncalibrated": "uncalibrated",
    "global": "global temperature T₀",
    "brittleness_aware": "T₀ + η · Norm(FDS)",
}
SUBSET_TITLES = {"all": "all test cases", "fragile": "most fragile cases"}
_BIN_VALUES = ("bin_share", "bin_confidence", "bin_correct")


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table from the metric files of the calibrate stage.

    Data: levels unit, dataset, aggregate of each metric (``score`` holds the method, ``metric`` is
    ``<subset>:<metric>``); the choices t0 and eta; and level ``bin``: the reliability diagram of
    each method and subset, every data set weighing the same and every unit within it.
    """
    units = Units(rows, expected)
    names = [f"{subset}:{metric}" for subset in SUBSETS for metric in METRICS]
    corrected = units.select("calibration", names, score=METHODS)
    choices = units.select("calibration", ["t0", "t0_at_edge", "eta"])
    data = pd.concat(
        [aggregate(corrected), aggregate(choices), _reliability(units)], ignore_index=True
    )
    displays = [
        (f"Mean over units, then data sets: {SUBSET_TITLES[subset]} (lower is better)", grid)
        for subset in SUBSETS
        if len(grid := _means(data, subset))
    ]
    displays += [
        ("Expected calibration error per data set", _per_dataset(data, units)),
        ("Chosen on validation", _chosen(choices)),
        ("Units in which the correction helps", _wins(corrected)),
    ]
    changed = corrected[corrected["metric"].str.endswith("share_label_changed")]
    notes = units.notes()
    notes += undefined_notes(pick(corrected, metric="all:ece", score="global"), "Calibration")
    share, n = changed["value"].max(), changed[UNIT_KEYS].drop_duplicates().shape[0]
    notes += [
        f"Largest share of predictions whose label changed, over {n} units and both subsets: "
        f"{number(share, 6)} (a positive temperature cannot change a label, so it must be 0).",
        "T₀ minimises the NLL of all validation rows; Norm is the range of FDS on a uniform "
        "validation sample, cut to [0, 1]; η is the candidate with the lowest validation NLL. "
        "Test cases: the uniform sample. The fragile subset is its top share by Norm(FDS); no "
        "test label enters any choice (`calibration.fragile_share` of the cases; the paper: 20 %).",
        "Probabilities are clipped and renormalised before they are tempered, also in the row "
        "'uncalibrated', so that NLL stays finite. ECE: 15 equal bins.",
    ]
    return units.result("calibration", TITLE, context, data, displays, notes)


def _reliability(units: Units) -> pd.DataFrame:
    names = [
        f"{subset}:{value}@{i:02d}"
        for subset in SUBSETS
        for value in _BIN_VALUES
        for i in range(BINS)
    ]
    rows = units.select("calibration", names, score=METHODS)
    parts = rows["metric"].str.extract(r"^(?P<subset>\w+):(?P<what>\w+)@(?P<bin>\d+)$")
    rows = pd.concat([rows, parts], axis=1)
    wide = rows.pivot(index=["score", "subset", "bin", *UNIT_KEYS], columns="what", values="value")
    wide = wide.reset_index()
    wide = wide[wide["bin_share"].notna()]
    weight = wide["bin_share"]
    wide["confidence"] = (weight * wide["bin_confidence"]).fillna(0.0)
    wide["correct"] = (weight * wide["bin_correct"]).fillna(0.0)
    wide = wide.rename(columns={"bin_share": "share"})
    keys = ["score", "subset", "bin"]
    values = ["share", "confidence", "correct"]
    per_set = wide.groupby([*keys, "dataset"], sort=False)[values].mean().reset_index()
    out = per_set.groupby(keys, sort=False)[values].mean().reset_index()
    divisor = out["share"].where(out["share"] > 0)
    out["confidence"], out["correct"] = out["confidence"] / divisor, out["correct"] / divisor
    out["bin"] = out["bin"].astype(int)
    order = {name: i for i, name in enumerate(METHODS)}
    out = out.sort_values(keys, key=lambda c: c.map(order) if c.name == "score" else c)
    return out.assign(level="bin", metric="reliability").reset_index(drop=True)


def _means(data: pd.DataFrame, subset: str) -> pd.DataFrame:
    top = pick(data, level="aggregate")
    columns = {}
    for metric in METRICS:
        own = pick(top, metric=f"{subset}:{metric}").set_index("score")["value"]
        values = [own.get(method) for method in METHODS]
        digits = 6 if metric == "share_label_changed" else 4
        texts = [number(v, digits) for v in values]
        if metric != "share_label_changed":
            texts = mark_best(values, texts, larger_is_better=False)
        columns[metric] = texts
    titles = {"ece": "ECE", "brier": "Brier", "nll": "NLL", "share_label_changed": "label changed"}
    frame = pd.DataFrame(columns).rename(columns=titles)
    frame.insert(0, "method", [TITLES[m] for m in METHODS])
    return frame


def _per_dataset(data: pd.DataFrame, units: Units) -> pd.DataFrame:
    own = pick(data, level="dataset")
    lines = []
    for method in METHODS:
        for subset in SUBSETS:
            at = pick(own, score=method, metric=f"{subset}:ece").set_index("dataset")["value"]
            cells = [number(at.get(d), 4) for d in units.datasets]
            lines.append([f"{TITLES[method]}, {SUBSET_TITLES[subset]}", *cells])
    return pd.DataFrame(lines, columns=["method", *units.datasets])


def _chosen(choices: pd.DataFrame) -> pd.DataFrame:
    t0 = pick(choices, metric="t0")["value"].dropna()
    edge = pick(choices, metric="t0_at_edge")["value"].dropna()
    eta = pick(choices, metric="eta")["value"].dropna()
    lines = []
    if len(t0):
        lines.append(["T₀, median (range)", f"{number(t0.median())} ({_span(t0)})"])
        lines.append(["T₀ at an edge of its search range", f"{int(edge.sum())} of {len(edge)}"])
    lines += [
        [f"η* = {value:g}", f"{int((eta == value).sum())} of {len(eta)} units"]
        for value in np.unique(eta)
    ]
    lines = lines or [["nothing, no unit was calibrated", UNDEFINED]]
    return pd.DataFrame(lines, columns=["choice", "value"])


def _span(values: pd.Series) -> str:
    return f"{number(values.min())} to {number(values.max())}"


def _wins(corrected: pd.DataFrame) -> pd.DataFrame:
    lines = []
    for better, worse in (("global", "uncalibrated"), ("brittleness_aware", "global")):
        for subset in SUBSETS:
            cells = []
            for metric in ("ece", "brier", "nll"):
                at = pick(corrected, metric=f"{subset}:{metric}")
                new = pick(at, score=better).set_index(UNIT_KEYS)["value"]
                gain = (pick(at, score=worse).set_index(UNIT_KEYS)["value"] - new).dropna()
                wins, ties = int((gain > 0).sum()), int((gain == 0).sum())
                cells.append(f"{wins} of {len(gain)}" + (f" ({ties} equal)" if ties else ""))
            lines.append(
                [f"{TITLES[better]} below {TITLES[worse]}, {SUBSET_TITLES[subset]}", *cells]
            )
    return pd.DataFrame(lines, columns=["comparison", "ECE", "Brier", "NLL"])
