"""What is shown of an audit's cases: one row of its table, its groups, and what all come to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cfc.artifacts import lists_to_matrix, to_numpy
from cfc.auditing.words import CONFIDENT, decimal_text, one_step_flips, percent_text, plural
from cfc.errors import CfcError

NONE = "—"
SHORT = {
    "saturated": "at the clip",
    "near_tie": "near tie",
    "undefined_margin": "margin undefined",
    "unseen_category": "unseen category",
}


def record_of(audit, position: int) -> dict[str, Any]:
    """Return one row of an audit's table.

    Args:
        audit: an audit, or anything with its ``table``.
        position: 0..n−1.

    Raises:
        CfcError: there is no such row.
    """
    if not 0 <= position < len(audit.table):
        raise CfcError(
            f"there is no case at position {position}: the audit holds "
            f"{plural(len(audit.table), 'case')}, counted from 0"
        )
    return audit.table.slice(position, 1).to_pylist()[0]


def alone_of(table, facts: Mapping[str, Any]) -> np.ndarray:
    """Tell which groups are known to change a decision when removed alone.

    Args:
        table: the audit's table, n rows.
        facts: the audit's facts.

    Returns:
        bool [n, G], groups in declared order; see `cfc.auditing.words.one_step_flips`.
    """
    names = facts["groups"]["names"]
    if not len(table):
        return np.zeros((0, len(names)), dtype=bool)
    number = {name: g for g, name in enumerate(names)}
    order = table["group_order"].combine_chunks()
    first = order.flatten().take(order.offsets.slice(0, len(order)))
    return one_step_flips(
        lists_to_matrix(table["delta"]),
        to_numpy(table["margin"]),
        np.array([number[name] for name in first.to_pylist()]),
        to_numpy(table["flip_budget"]),
        facts["protocol"]["margin"],
    )


def summary(table, facts: Mapping[str, Any], confidence: float = CONFIDENT) -> dict[str, Any]:
    """Return what an audit comes to, over its confident cases.

    Args:
        table: the audit's table.
        facts: the audit's facts.
        confidence: cases with p̂ from here on are confident.

    Returns:
        ``cases``, ``confident``; ``fragile``: confident cases that some single group flips;
        ``share``: fragile over confident, None without a confident case; ``points``: group ->
        confident cases that this group alone flips, most first, without zeros; ``budgets``: k* ->
        confident cases, for every k* from 1 to the depth, None = no flip.
    """
    sure = to_numpy(table["confidence"]) >= confidence
    alone = alone_of(table, facts)[sure]
    counts = alone.sum(axis=0)
    names = facts["groups"]["names"]
    depth = min(facts["protocol"]["depth"], len(names))
    budgets = np.bincount(to_numpy(table["flip_budget"])[sure], minlength=depth + 2).tolist()
    fragile = int(alone.any(axis=1).sum())
    return {
        "cases": len(table),
        "confident": int(sure.sum()),
        "fragile": fragile,
        "share": fragile / int(sure.sum()) if sure.any() else None,
        "points": {
            names[g]: int(counts[g]) for g in np.argsort(-counts, kind="stable") if counts[g]
        },
        "budgets": {**{k: budgets[k] for k in range(1, depth + 1)}, None: budgets[depth + 1]},
    }


def values_of(X, rows: Sequence[int], columns: Sequence[str]) -> list[dict[str, str]]:
    """Return rows of the user's table, each as column -> text.

    Args:
        X: a pandas, polars or Arrow table, or a matrix whose columns are in the audit's order;
            None gives empty mappings.
        rows: positions in X, the ``case_id`` of the cases.
        columns: raw columns of the audit, in order.
    """
    if X is None:
        return [{} for _ in rows]
    at = np.asarray(rows, dtype=np.int64)
    if hasattr(X, "iloc"):
        cells = [X[name].iloc[at].tolist() for name in columns]
    elif hasattr(X, "take"):  # Arrow; a NumPy matrix has it too, but takes no column by name
        cells = (
            np.asarray(X)[at].T.tolist()
            if isinstance(X, np.ndarray)
            else [X[name].take(at).to_pylist() for name in columns]
        )
    else:
        cells = [X[name].gather(at).to_list() for name in columns]
    return [
        {name: cell_text(column[k]) for name, column in zip(columns, cells, strict=True)}
        for k in range(len(at))
    ]


def cell_text(cell: Any) -> str:
    """Return a cell as text: numbers with four digits, absent ones as ``missing``."""
    if cell is None or str(cell) in ("nan", "NaT", "<NA>"):
        return "missing"
    if isinstance(cell, float):
        return f"{cell:.0f}" if cell.is_integer() and abs(cell) < 1e15 else f"{cell:.4g}"
    return str(cell)


def group_values(facts: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, str]:
    """Return group -> the values of its columns as text, {} without values.

    The name of a column is left out where the group is that column.
    """
    if not values:
        return {}
    fields = [coordinate["field"] for coordinate in facts["coordinates"]]
    found = {}
    for group, index in zip(facts["groups"]["names"], facts["groups"]["indices"], strict=True):
        own = [name for name in dict.fromkeys(fields[i] for i in index) if name in values]
        if own == [group]:
            found[group] = values[group]
        else:
            found[group] = ", ".join(f"{name} {values[name]}" for name in own)
    return found


def number_text(value: float | None, digits: int = 2) -> str:
    """Return a number with a true minus sign; one digit where fewer would read as 0, — for none."""
    if value is None or not np.isfinite(value):
        return NONE
    value += 0.0  # −0 reads 0
    if abs(value) >= 1e5 or 0 < abs(value) < 0.5 * 10**-digits:
        text = f"{value:.1g}" if 1e-4 <= abs(value) < 1 else f"{value:.0e}"
    else:
        text = f"{value:.{digits}f}"
    return text.replace("-", "−")


def largest_of(rows: Sequence["GroupRow"], record: Mapping[str, Any]) -> float:
    """Return what fills a bar: the largest |δ| or the margin itself, above 0."""
    values = [abs(row.delta) for row in rows] + [record["margin"], 1e-9]
    return max(value for value in values if np.isfinite(value))


@dataclass(frozen=True)
class GroupRow:
    """One group of a case, in order of removal.

    Attributes:
        k: place in the order, from 1.
        name: the group.
        delta: margin it costs alone.
        flips_alone: it is known to change the decision alone.
        margin, label: after the first k groups are gone; None beyond the path.
        is_flipped: that label is not the predicted one.
        lost, flip: exposure e and f; None without exposure.
        value, baseline: what its columns hold and what replaces them, as text; "" if unknown.
    """

    k: int
    name: str
    delta: float
    flips_alone: bool
    margin: float | None
    label: str | None
    is_flipped: bool
    lost: float | None
    flip: float | None
    value: str
    baseline: str


def group_rows(
    record: Mapping[str, Any], facts: Mapping[str, Any], values: Mapping[str, str]
) -> list[GroupRow]:
    """Return the groups of a case in order of removal.

    Args:
        record: one row of the audit's table.
        facts: the audit's facts.
        values: column -> text, see `values_of`.
    """
    names = list(facts["groups"]["names"])
    number = {name: g for g, name in enumerate(names)}
    order = list(record["group_order"])
    alone = one_step_flips(
        np.array([record["delta"]], dtype=float),
        np.array([record["margin"]], dtype=float),
        np.array([number[order[0]]]),
        np.array([record["flip_budget"]]),
        facts["protocol"]["margin"],
    )[0]
    held = group_values(facts, values)
    lost, flip = (record.get(f"exposure_{kind}") for kind in ("mean", "flip"))
    rows = []
    for k, name in enumerate(order, start=1):
        g, on_path = number[name], k < len(record["path_margin"])
        label = record["path_label"][k] if on_path else None
        rows.append(
            GroupRow(
                k=k,
                name=name,
                delta=record["delta"][g],
                flips_alone=bool(alone[g]),
                margin=record["path_margin"][k] if on_path else None,
                label=facts["classes"][label] if on_path else None,
                is_flipped=on_path and label != record["predicted"],
                lost=None if lost is None else lost[g],
                flip=None if flip is None else flip[g],
                value=held.get(name, ""),
                baseline=(facts.get("baseline_text") or {}).get(name, ""),
            )
        )
    return rows


def place_text(record: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return where a case ranks, in words."""
    return f"rank {record['rank']:,} of {facts['n_cases']:,} by {score_name(facts)}"


def budget_text(record: Mapping[str, Any]) -> str:
    """Return k*, or ``none`` where the decision does not change on the path."""
    budget = int(record["flip_budget"])
    return str(budget) if budget < len(record["path_margin"]) else "none"


def score_name(facts: Mapping[str, Any]) -> str:
    """Return the name of the score cases are ranked by."""
    return {"s": "S", "u": "u"}[facts["rank_by"]]


def numbers_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the numbers of a case that have no place elsewhere, name -> text."""
    shown = {"margin m": "margin", "RCMA": "rcma", "u": "u", "FDS": "fds"}
    shown |= {"exposure X": "exposure", "S = u + X": "s"}
    return {name: number_text(record[key], 3) for name, key in shown.items() if key in record}


def first_severities(record: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return operator -> first severity that changes the decision, None where none does."""
    found = {
        operator: record.get(f"lambda_{operator}") for operator in facts["protocol"]["operators"]
    }
    return {o: None if v is None or not np.isfinite(v) else v for o, v in found.items()}


def hashes_of(facts: Mapping[str, Any], digits: int | None = None) -> dict[str, str]:
    """Return what an audit was made of: name -> hash, cut to some digits."""
    found = {
        "protocol": facts["protocol_hash"],
        "model": facts["model"]["hash"],
        "data": facts["data_hash"],
        "background": facts["background_hash"],
        "exposure grid": (facts.get("exposure") or {}).get("hash"),
        "stress donors": (facts.get("stress") or {}).get("donors_hash"),
    }
    return {name: value[:digits] for name, value in found.items() if value}


def headline(table, facts: Mapping[str, Any]) -> str:
    """Return what an audit comes to, in a sentence or two."""
    found = summary(table, facts)
    if not found["confident"]:
        return f"No case has confidence of {decimal_text(CONFIDENT)} or more."
    text = (
        f"{percent_text(found['share'])} of {plural(found['confident'], 'confident case')} "
        f"(p̂ ≥ {decimal_text(CONFIDENT)}) flip on losing one group."
    )
    points = [f"“{name}” ({count})" for name, count in list(found["points"].items())[:3]]
    return f"{text} Most often that group is {', '.join(points)}." if points else text
