"""What the interactive page knows: plain JSON values of a run and of each unit.

Numbers are rounded to what a reader can use, a run of 189 units has to fit in a few megabytes; the
Parquet files keep full precision. Values that do not exist are null, and where a reason is known it
travels with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from cfc.artifacts import lists_to_matrix, to_numpy
from cfc.errors import ArtifactError
from cfc.evaluate import curve_metric
from cfc.scores import relative_collapse
from cfc.seeding import generator
from cfc.stages.label import stress_arrays
from cfc.tables.base import METRIC_KEYS, pick, score_signs, score_title
from cfc.tables.capture_curve import CEILING

FRAGILE, UNIFORM = 1, 2
MEASURES = (("auroc", "AUROC"), ("auroc_within_class", "AUROC within predicted class"))
_PREDICTIVE = ("accuracy", "auroc")


@dataclass(frozen=True)
class UnitTables:
    """The result files of one unit.

    Attributes:
        dataset, model, seed: which unit.
        certificates, stressed, labels, ranks, metrics: tables of the stages certify, stress,
            label, rank and evaluate.
        group_names: groups in declared order, the order of ``delta``.
        classes: class labels as text, in code order.
    """

    dataset: str
    model: str
    seed: int
    certificates: pa.Table
    stressed: pa.Table
    labels: pa.Table
    ranks: pa.Table
    metrics: pa.Table
    group_names: Sequence[str]
    classes: Sequence[str]

    @property
    def key(self) -> str:
        """Return the unit's name in the page, ``dataset/model/seed``."""
        return f"{self.dataset}/{self.model}/{self.seed}"


def select_cases(
    confidence: np.ndarray,
    u: np.ndarray,
    is_uniform: np.ndarray,
    *,
    limit: int,
    tau_p: float,
    seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose the cases of a unit that the page shows.

    Half of the places go to a draw without replacement from the uniform test sample, the others to
    the cases with the largest u among those with p̂ >= τ_p. A case that is both takes one place.

    Args:
        confidence: p̂ [n].
        u: [n].
        is_uniform: member of the uniform sample, bool [n].
        limit: most cases, at least 2.
        tau_p: least confidence of a fragile case.
        seed: root seed of the unit.

    Returns:
        positions, ascending int64 [k] with k <= limit, and why each is shown, int64 [k]:
        `FRAGILE`, `UNIFORM` or their sum.
    """
    reasons: dict[int, int] = {}
    pool = np.flatnonzero(is_uniform)
    size = min(limit // 2, len(pool))
    for position in generator(seed, "page").choice(pool, size, replace=False) if size else ():
        reasons[int(position)] = UNIFORM
    eligible = np.flatnonzero(confidence >= tau_p)
    for position in eligible[np.argsort(-u[eligible], kind="stable")].tolist():
        if position not in reasons and len(reasons) == limit:
            break
        reasons[position] = reasons.get(position, 0) + FRAGILE
    positions = np.array(sorted(reasons), dtype=np.int64)
    return positions, np.array([reasons[p] for p in positions.tolist()], dtype=np.int64)


def mid_ranks(values: np.ndarray, population: np.ndarray) -> np.ndarray:
    """Return the rank of each value in a population, 1 = largest; ties share the mean.

    Args:
        values: [n].
        population: [m], containing every value.

    Returns:
        float64 [n], multiples of one half.
    """
    ordered = np.sort(population)
    above = len(ordered) - np.searchsorted(ordered, values, side="right")
    tied = np.searchsorted(ordered, values, side="right") - np.searchsorted(ordered, values)
    return above + (tied + 1) / 2


def rounded(values: Any, digits: int = 4) -> Any:
    """Return an array or number as nested lists with that many significant digits.

    What is not finite becomes None.
    """
    values = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(values, list):
        return [rounded(value, digits) for value in values]
    if values is None or not np.isfinite(values):
        return None
    return float(f"{values:.{digits}g}")


def cut(p: float) -> float:
    """Return a probability cut to five decimals: .999999 must not read as 1, nor .899999 as .9."""
    # .95 times 1e5 is a little less than 95,000
    return int(p * 1e5 + 1e-6) / 1e5


def unit_payload(unit: UnitTables, *, limit: int, tau_p: float, rules: Sequence[str]) -> dict:
    """Return what the page knows about one unit, as JSON values.

    Args:
        unit: its tables.
        limit: most cases, see `select_cases`.
        tau_p: confidence from which a case takes part in the rankings.
        rules: label rules in the order shown.

    Raises:
        ArtifactError: the tables of the stages are not of the same cases.
    """
    certificates = unit.certificates
    ids = to_numpy(certificates["case_id"])
    labels = _aligned(unit, "label", unit.labels, ids)
    rank_rows = _aligned(unit, "rank", unit.ranks, ids)
    confidence = to_numpy(certificates["confidence"])
    positions, why = select_cases(
        confidence,
        to_numpy(certificates["u"]),
        to_numpy(certificates["is_uniform"]),
        limit=limit,
        tau_p=tau_p,
        seed=unit.seed,
    )
    chosen = certificates.take(pa.array(positions))
    metrics = unit.metrics.to_pandas()
    cells, draws, flips, kappa = _stress(unit.stressed, to_numpy(chosen["case_id"]))
    scores = sorted({n.rpartition("_")[0] for n in unit.ranks.column_names if n.endswith("_risk")})
    member = confidence >= tau_p
    values, ranks, ranked = _scores(rank_rows, scores, member, positions)
    return {
        "groups": list(unit.group_names),
        "classes": list(unit.classes),
        "audited": len(certificates),
        "population": int(member.sum()),
        "uniform": int(to_numpy(certificates["is_uniform"]).sum()),
        "predictive": {
            name: rounded(_first(metrics, family="predictive", metric=name)) for name in _PREDICTIVE
        },
        "brittle": {rule: _brittle_count(metrics, rule) for rule in rules},
        "capture": _unit_capture(metrics, rules),
        "cells": cells,
        "draws": draws,
        "operators": [n[7:] for n in certificates.column_names if n.startswith("lambda_")],
        "scores": scores,
        "ranked": ranked,
        "cases": {
            "id": chosen["case_id"].to_pylist(),
            "why": why.tolist(),
            "true": chosen["true_label"].to_pylist(),
            "pred": chosen["predicted"].to_pylist(),
            "member": [int(m) for m in member[positions]],
            "conf": [cut(p) for p in to_numpy(chosen["confidence"])],
            "saturated": [int(s) for s in chosen["is_saturated"].to_pylist()],
            "budget": chosen["flip_budget"].to_pylist(),
            "rcma": rounded(to_numpy(chosen["rcma"])),
            "u": rounded(to_numpy(chosen["u"])),
            "fds": rounded(to_numpy(chosen["fds"])),
            "lambda": [
                chosen[name].to_pylist() for name in chosen.column_names if name[:7] == "lambda_"
            ],
            "order": _order(chosen, unit.group_names),
            "delta": rounded(_matrix(chosen["delta"])),
            "path": rounded(_matrix(chosen["path_margin"])),
            "labels": chosen["path_label"].to_pylist(),
            "flips": flips,
            "kappa": kappa,
            "values": values,
            "ranks": ranks,
            "brittle": [[int(b) for b in to_numpy(labels[rule])[positions]] for rule in rules],
        },
    }


def _aligned(unit: UnitTables, stage: str, table: pa.Table, ids: np.ndarray) -> pa.Table:
    """Return the table's rows in the order of the certificates."""
    own = to_numpy(table["case_id"])
    order = np.argsort(own, kind="stable")
    if not np.array_equal(own[order], np.sort(ids)):
        raise ArtifactError(
            f"the files of {unit.key} from the stages certify and {stage} hold different cases; "
            f"rerun {stage}"
        )
    return table.take(pa.array(order[np.searchsorted(own[order], ids)]))


def _matrix(column) -> np.ndarray:
    return lists_to_matrix(column) if len(column) else np.zeros((0, 0))


def _order(chosen: pa.Table, names: Sequence[str]) -> list[list[int]]:
    number = {name: i for i, name in enumerate(names)}
    return [[number[name] for name in order] for order in chosen["group_order"].to_pylist()]


def _stress(stressed: pa.Table, ids: np.ndarray) -> tuple[list, list, list, list]:
    """Return cells [operator, severity], draws of each, and flips and mean κ of each case and cell.

    A case that was not stressed has null in place of its numbers.
    """
    own = stressed.filter(pc.is_in(stressed["case_id"], pa.array(ids, pa.int64())))
    arrays = stress_arrays(own)
    cells, draws, flips, kappa = [], [], [], []
    # grouping gives no order that can be relied on
    for operator in pc.unique(stressed["operator"]).to_pylist():
        if operator not in arrays["severities"]:
            continue
        severities = arrays["severities"][operator]
        labels, margins = arrays["labels"][operator], arrays["margins"][operator]
        changed = labels != arrays["predicted"][:, None, None]
        lost = relative_collapse(arrays["margin"][:, None, None], margins.astype(np.float64))
        for level in np.argsort(severities).tolist():
            cells.append([operator, severities[level]])
            draws.append(labels.shape[2])
            flips.append(changed[:, level].sum(axis=1))
            kappa.append(lost[:, level].mean(axis=1))
    at = {int(case): row for row, case in enumerate(arrays["case_id"])}
    rows = [at.get(int(case)) for case in ids]
    flip_rows = np.stack(flips, axis=1).tolist() if flips else []
    kappa_rows = rounded(np.stack(kappa, axis=1), 3) if kappa else []
    return (
        cells,
        draws,
        [None if row is None else flip_rows[row] for row in rows],
        [None if row is None else kappa_rows[row] for row in rows],
    )


def _scores(
    ranks: pa.Table, scores: Sequence[str], member: np.ndarray, positions: np.ndarray
) -> tuple[list, list, list[int]]:
    """Return values in the risk sign, ranks among the members, and how many are ranked.

    One entry a score. Scores that look at a sample of the cases have null elsewhere.
    """
    values, places, counts = [], [], []
    for score in scores:
        column = to_numpy(ranks[f"{score}_risk"]).astype(np.float64)
        population = column[member & np.isfinite(column)]
        own = column[positions]
        inside = member[positions] & np.isfinite(own)
        rank = np.full(len(own), np.nan)
        rank[inside] = mid_ranks(own[inside], population)
        values.append(rounded(own))
        places.append(rounded(rank, 6))
        counts.append(len(population))
    return values, places, counts


def _first(metrics: pd.DataFrame, column: str = "value", **keys: Any) -> Any:
    rows = pick(metrics, **keys)
    value = rows[column].iloc[0] if len(rows) else None
    return None if value is None or pd.isna(value) else value


def _brittle_count(metrics: pd.DataFrame, rule: str) -> int | None:
    count = _first(metrics, "n_positive", family="brittle", label_rule=rule, metric="base_rate")
    return None if count is None else int(count)


def _unit_capture(metrics: pd.DataFrame, rules: Sequence[str]) -> dict:
    """Return rule -> pair -> shares over the ascending budgets, or rule -> reason."""
    brittle = metrics[metrics["metric"].str.startswith(curve_metric(0).partition("@")[0])]
    out: dict[str, Any] = {}
    for rule in rules:
        own = pick(brittle, label_rule=rule)
        if not own["value"].notna().any():
            out[rule] = next(iter(own["reason"].dropna()), "not in the unit's evaluate file")
            continue
        own = own.assign(budget=own["metric"].str.partition("@")[2].astype(float))
        pairs = own.sort_values("budget", kind="stable").groupby(["score", "sign"], sort=False)
        shown = set(score_signs(list(dict.fromkeys(own["score"]))))
        out[rule] = {
            f"{score}_{sign}": rounded(curve["value"].to_numpy(), 3)
            for (score, sign), curve in pairs
            if (score, sign) in shown
        }
    return out


def run_payload(
    *,
    auroc: pd.DataFrame,
    capture: pd.DataFrame,
    datasets: Mapping[str, str],
    models: Mapping[str, str],
    seeds: Sequence[int],
    rules: Mapping[str, str],
    units: Sequence[str] | None = None,
) -> dict:
    """Return what the page knows about the whole run, as JSON values.

    Args:
        auroc: data of the table ``brittle_auroc``, empty text for nulls in its keys.
        capture: data of the table ``capture_curve``, likewise.
        datasets, models: name -> title, in the order shown.
        seeds: root seeds.
        rules: label rule -> what it calls brittle, in words.
        units: keys of the units whose cases the page holds, ``dataset/model/seed``; default all.
    """
    pairs = score_signs([s for s in dict.fromkeys(auroc["score"]) if s])
    heat, reasons = _heat(auroc, pairs, list(datasets), list(models), list(rules))
    return {
        "datasets": [{"name": n, "title": t} for n, t in datasets.items()],
        "models": [{"name": n, "title": t} for n, t in models.items()],
        "seeds": list(seeds),
        "units": list(units)
        if units is not None
        else [f"{d}/{m}/{s}" for d in datasets for m in models for s in seeds],
        "rules": [{"name": n, "text": t} for n, t in rules.items()],
        "pairs": [
            {"key": f"{s}_{sign}", "score": s, "sign": sign, "title": score_title(s, sign)}
            for s, sign in pairs
        ],
        "measures": [{"key": key, "title": title} for key, title in MEASURES],
        "heat": heat,
        "reasons": reasons,
        **_run_capture(capture, pairs, list(rules)),
    }


def _heat(auroc, pairs, datasets, models, rules) -> tuple[dict, list[str]]:
    """Return measure -> rule -> pair -> {cells, rows, all} and the reasons that cells number.

    A cell is [mean over seeds, defined units, all units, number of its reason or null], in the
    order of data sets, then models.
    """
    numbers: dict[str, int] = {}
    grouped = dict(list(auroc.groupby(["level", *METRIC_KEYS], sort=False)))
    heat: dict[str, dict] = {}
    for measure, _ in MEASURES:
        for rule in rules:
            for score, sign in pairs:
                at = (rule, score, sign, measure)
                unit, by_dataset, top = (
                    grouped.get((level, *at)) for level in ("unit", "dataset", "aggregate")
                )
                if unit is None:
                    continue
                cells = {
                    key: _cell(own, numbers)
                    for key, own in unit.groupby(["dataset", "model"], sort=False)
                }
                means = by_dataset.set_index("dataset")["value"]
                heat.setdefault(measure, {}).setdefault(rule, {})[f"{score}_{sign}"] = {
                    "cells": [cells.get((d, m)) for d in datasets for m in models],
                    "rows": [rounded(means.get(d, np.nan)) for d in datasets],
                    "all": rounded(top["value"].iloc[0]),
                }
    return heat, list(numbers)


def _cell(own: pd.DataFrame, numbers: dict[str, int]) -> list:
    value, missing = own["value"], own[own["value"].isna()]
    number = None
    if len(missing):
        parts = [
            f"seed {int(s)}: {r}" for s, r in zip(missing["seed"], missing["reason"], strict=True)
        ]
        number = numbers.setdefault("; ".join(parts), len(numbers))
    return [rounded(value.mean()), int(value.notna().sum()), len(own), number]


def _run_capture(capture: pd.DataFrame, pairs: Iterable, rules: Iterable[str]) -> dict:
    budgets = sorted(set(capture["budget"]))
    curves: dict[str, dict] = {}
    defined: dict[str, list[int]] = {}
    for rule in rules:
        own = pick(capture, label_rule=rule)
        curves[rule] = {}
        for score, sign in [*pairs, (CEILING, "")]:
            curve = pick(own, score=score, sign=sign).set_index("budget")["capture"]
            key = f"{score}_{sign}" if sign else score
            curves[rule][key] = rounded(curve.reindex(budgets).to_numpy(), 3)
        count = int(own["n_defined"].max()) if len(own) else 0
        total = int((own["n_defined"] + own["n_undefined"]).max()) if len(own) else 0
        defined[rule] = [count, total]
    return {"budgets": rounded(budgets, 4), "capture": curves, "capture_defined": defined}


def rule_text(rule: Mapping[str, Any], labels: Mapping[str, Any]) -> str:
    """Return a label rule in words.

    Args:
        rule: its configuration (kind, cells, draws, collapse).
        labels: thresholds tau_p, tau_kappa and tau_flip.
    """
    grids = {op: ", ".join(f"{s:g}" for s in grid) for op, grid in rule["cells"].items()}
    cells = "; ".join(f"{operator} {grid}" for operator, grid in grids.items())
    collapse = rule.get("collapse", True)
    draws = f"the first {rule['draws']} draws" if rule.get("draws") else "all draws"
    if rule["kind"] == "any_draw":
        event = "flips the label"
        event += f" or costs κ ≥ {labels['tau_kappa']:g} of the margin" if collapse else ""
        what = f"any of {draws} {event}"
    else:
        what = f"the label flips in a share of at least {labels['tau_flip']:g} of {draws}"
        what += f", or the mean κ is at least {labels['tau_kappa']:g}" if collapse else ""
    return f"confidence ≥ {labels['tau_p']:g} and {what}, in one of the cells {cells}"
