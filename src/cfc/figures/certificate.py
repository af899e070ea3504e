"""The picture of one certificate: how its support collapses, step by step."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#666666"  # Okabe-Ito, apart without colour too


def draw_certificate(record: Mapping[str, Any], group_names: Sequence[str], classes: Sequence[str]):
    """Draw one certificate.

    Left: the margin of the original class as groups are removed in order; below zero another class
    is predicted. Right: the one-step drop of each group, in the same order.

    Args:
        record: one row of a certificate file, lists as sequences.
        group_names: names in declared order, the order of ``delta``.
        classes: original labels in code order.

    Returns:
        a Matplotlib figure.
    """
    from matplotlib.figure import Figure

    margins = np.asarray(record["path_margin"], dtype=float)
    depth = len(margins) - 1
    order = list(record["group_order"])
    budget = int(record["flip_budget"])
    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])

    left.axhline(0, color=_GREY, linewidth=0.8)
    left.fill_between(
        range(depth + 1), margins, 0, where=margins > 0, interpolate=True, color=_BLUE, alpha=0.12
    )
    left.plot(range(depth + 1), margins, color=_BLUE, marker="o", markersize=5)
    if budget <= depth:
        left.plot(budget, margins[budget], color=_ORANGE, marker="X", markersize=11, zorder=3)
        other = classes[int(record["path_label"][budget])]
        left.annotate(
            f"flips to {other}",
            (budget, margins[budget]),
            xytext=(10, 6),
            textcoords="offset points",
            va="bottom",
            color=_ORANGE,
        )
    left.set_xticks(range(depth + 1), ["none", *order[:depth]], rotation=40, ha="right")
    left.set_xlabel("groups removed so far, each added to those before it")
    left.set_ylabel(f"margin of {classes[int(record['predicted'])]}")
    left.set_title(_headline(record, classes, depth), loc="left", fontsize=10)

    by_name = dict(zip(group_names, record["delta"], strict=True))
    shown = order[:depth][::-1]
    right.barh(range(len(shown)), [by_name[n] for n in shown], color=_BLUE, height=0.6)
    right.axvline(float(record["margin"]), color=_ORANGE, linestyle="--", linewidth=1)
    right.set_yticks(range(len(shown)), shown)
    right.set_xlabel("margin lost when this group\nalone is removed (dashed: all of it)")
    right.set_title(_thresholds(record), loc="left", fontsize=10)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _headline(record: Mapping[str, Any], classes: Sequence[str], depth: int) -> str:
    budget = int(record["flip_budget"])
    flip = f"k* = {budget}" if budget <= depth else f"no flip in {depth} removals"
    return (
        f"case {record['case_id']}: {classes[int(record['predicted'])]} "
        f"with p = {record['confidence']:.3f}\n"
        f"{flip},  RCMA = {record['rcma']:.2f},  FDS = {record['fds']:.3f}"
    )


def _thresholds(record: Mapping[str, Any]) -> str:
    parts = []
    for name, value in record.items():
        if name.startswith("lambda_"):
            missing = value is None or not np.isfinite(value)
            parts.append(f"{name.removeprefix('lambda_')} {'none' if missing else f'{value:g}'}")
    return "first severity that flips:\n" + ",  ".join(parts)
