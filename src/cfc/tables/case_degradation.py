"""Table ``case_degradation``: one case a data set along its removal path, in two families.

The case is chosen by a declared rule, never by its looks. In the nominal winner's unit of the
first seed, take the test cases that are confident (at or above ``tau_p``), correctly predicted and
also certified in the most stable family's unit; order them by u (the unsaturated FDS), ties by case
number; the case at the 90th percentile (nearest rank) is shown.
"""

import math

import numpy as np
import pandas as pd

from cfc.evaluate import EvaluationSettings
from cfc.tables.base import UNDEFINED, TableContext, TableResult, Unit, Units, number, pick
from cfc.tables.nominal_vs_stable import choose_families

TITLE = "Margin along the removal path: nominal winner and most stable family"
PERCENTILE = 0.90
ROLES = ("nominal", "stable")
_COLUMNS = {
    "dataset": "str",
    "role": "str",
    "model": "str",
    "seed": "Int64",
    "case_id": "Int64",
    "step": "Int64",
    "removed": "str",
    "margin": "float64",
    "relative_margin": "float64",
    "confidence": "float64",
    "true_label": "Int64",
    "predicted": "Int64",
    "flip_budget": "Int64",
    "fds": "float64",
    "rcma": "float64",
    "n_candidates": "Int64",
    "reason": "str",
}


def build(
    rows, expected: list[Unit], settings: EvaluationSettings, context: TableContext
) -> TableResult:
    """Return the table: one row per data set, role and step k = 0..K of the path.

    ``removed`` is the group removed at that step, ``relative_margin`` the margin over its value
    at step 0 (negative after a flip). A data set without a case has one row with a reason.
    """
    units = Units(rows, expected)
    chosen = choose_families(units)
    parts = [_dataset_rows(dataset, chosen, units, settings, context) for dataset in units.datasets]
    data = pd.DataFrame([row for part in parts for row in part], columns=list(_COLUMNS))
    for name, kind in _COLUMNS.items():
        if kind == "str":
            data[name] = data[name].astype(object).where(data[name].notna(), "")
        else:
            data[name] = data[name].astype("float64").astype(kind)
    notes = units.notes()
    notes += [
        f"{row.dataset}: undefined, {row.reason}."
        for row in data[data["reason"] != ""].itertuples(index=False)
    ]
    notes += [
        f"Case: in the nominal winner's unit (best mean test AUROC) of the first seed, of the test "
        f"cases with confidence at or above {settings.tau_p:g} that are predicted correctly and "
        "also certified in the most stable family (lowest mean RCMA), the one at the "
        f"{PERCENTILE:.0%} nearest-rank percentile of FDS; ties by case number.",
        "The rule looks at the nominal winner only and takes one of its fragile cases, so the "
        "picture illustrates the certificate; it does not compare the two families.",
    ]
    displays = [("Chosen cases", _display(data, units.datasets))]
    return units.result("case_degradation", TITLE, context, data, displays, notes)


def choose_case(nominal: pd.DataFrame, stable: pd.DataFrame, tau_p: float) -> tuple[int, int]:
    """Return the case number chosen and the number of candidates (-1 and 0 without one).

    Args:
        nominal, stable: certificate rows of the two units.
        tau_p: confidence from which a case counts.
    """
    shared = set(stable.loc[stable["split"] == "test", "case_id"])
    keep = (
        (nominal["split"] == "test")
        & (nominal["confidence"] >= tau_p)
        & (nominal["predicted"] == nominal["true_label"])
        & nominal["case_id"].isin(shared)
    )
    candidates = nominal[keep].sort_values(["u", "case_id"])
    if candidates.empty:
        return -1, 0
    at = max(math.ceil(PERCENTILE * len(candidates)) - 1, 0)
    return int(candidates["case_id"].iloc[at]), len(candidates)


def _dataset_rows(dataset, chosen, units: Units, settings, context: TableContext) -> list[dict]:
    models = {role: pick(chosen, dataset=dataset, role=role)["model"].iloc[0] for role in ROLES}
    seed = next(seed for d, _, seed in units.expected if d == dataset)
    if not all(models.values()):
        return [{"dataset": dataset, "reason": "no family has a defined AUROC and RCMA"}]
    frames = {role: _load(context, (dataset, model, seed)) for role, model in models.items()}
    for role, frame in frames.items():
        if frame is None or frame.empty:
            unit = f"{dataset}/{models[role]}/{seed}"
            return [{"dataset": dataset, "reason": f"no certificate of unit {unit}"}]
    case, count = choose_case(frames["nominal"], frames["stable"], settings.tau_p)
    if not count:
        reason = "no confident, correctly predicted case is certified in both families"
        return [{"dataset": dataset, "reason": reason}]
    return [
        row | {"n_candidates": count}
        for role in ROLES
        for row in _path_rows(frames[role], case, dataset, role, models[role], seed)
    ]


def _load(context: TableContext, unit: Unit) -> pd.DataFrame | None:
    return context.certificates(unit) if context.certificates else None


def _path_rows(frame, case: int, dataset: str, role: str, model: str, seed: int) -> list[dict]:
    one = frame[(frame["case_id"] == case) & (frame["split"] == "test")].iloc[0]
    path = np.asarray(one["path_margin"], dtype=np.float64)
    # A case on the decision boundary has no scale of its own.
    scale = path[0] if path[0] > 0 else np.nan
    fields = ("confidence", "true_label", "predicted", "flip_budget", "fds", "rcma")
    common = {name: one[name] for name in fields}
    common |= {"dataset": dataset, "role": role, "model": model, "seed": seed, "case_id": case}
    return [
        common
        | {
            "step": k,
            "removed": one["group_order"][k - 1] if k else "",
            "margin": path[k],
            "relative_margin": path[k] / scale,
            "reason": "",
        }
        for k in range(len(path))
    ]


def _display(data: pd.DataFrame, datasets: list[str]) -> pd.DataFrame:
    lines = []
    for dataset in datasets:
        for role in ROLES:
            own = pick(data, dataset=dataset, role=role)
            if own.empty:
                lines.append([dataset, role, *[UNDEFINED] * 8])
                continue
            first = own.iloc[0]
            depth = len(own) - 1
            flips = first["flip_budget"]
            lines.append(
                [
                    dataset,
                    role,
                    first["model"],
                    str(first["case_id"]),
                    number(first["confidence"]),
                    str(flips) if flips <= depth else f"none in {depth}",
                    number(first["rcma"]),
                    number(first["fds"]),
                    ", ".join(own["removed"].iloc[1:4]),
                    str(first["n_candidates"]),
                ]
            )
    columns = ["data set", "role", "family", "case", "confidence", "flip budget", "RCMA", "FDS"]
    return pd.DataFrame(lines, columns=[*columns, "first groups removed", "candidates"])
