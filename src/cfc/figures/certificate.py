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

    figure = Figure(figsize=(9.0, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    draw_collapse(left, record, classes)
    depth = len(record["path_margin"]) - 1
    by_name = dict(zip(group_names, record["delta"], strict=True))
    shown = list(record["group_order"])[:depth][::-1]
    right.barh(range(len(shown)), [by_name[n] for n in shown], color=_BLUE, height=0.6)
    right.axvline(float(record["margin"]), color=_ORANGE, linestyle="--", linewidth=1)
    right.set_yticks(range(len(shown)), [unformatted(n) for n in shown])
    right.set_xlabel("margin lost when this group\nalone is removed (dashed: all of it)")
    right.set_title(_thresholds(record), loc="left", fontsize=10)
    right.spines[["top", "right"]].set_visible(False)
    return figure


def draw_collapse(axes, record: Mapping[str, Any], classes: Sequence[str]) -> None:
    """Draw the margin of the original class along the path of removal into Matplotlib Axes.

    Args:
        axes: where to.
        record: one row of a certificate file, lists as sequences.
        classes: original labels in code order.
    """
    margins = np.asarray(record["path_margin"], dtype=float)
    depth = len(margins) - 1
    order = list(record["group_order"])
    budget = int(record["flip_budget"])
    axes.axhline(0, color=_GREY, linewidth=0.8)
    axes.fill_between(
        range(depth + 1), margins, 0, where=margins > 0, interpolate=True, color=_BLUE, alpha=0.12
    )
    axes.plot(range(depth + 1), margins, color=_BLUE, marker="o", markersize=5)
    if budget <= depth:
        axes.plot(budget, margins[budget], color=_ORANGE, marker="X", markersize=11, zorder=3)
        other = unformatted(classes[int(record["path_label"][budget])])
        axes.annotate(
            f"flips to {other}",
            (budget, margins[budget]),
            xytext=(10, 6),
            textcoords="offset points",
            va="bottom",
            color=_ORANGE,
        )
    names = ["none", *map(unformatted, order[:depth])]
    axes.set_xticks(range(depth + 1), names, rotation=40, ha="right")
    axes.set_xlabel("groups removed so far, each added to those before it")
    axes.set_ylabel(f"margin of {unformatted(classes[int(record['predicted'])])}")
    axes.set_title(_headline(record, classes, depth), loc="left", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def unformatted(text: Any) -> str:
    """Return a name so that Matplotlib prints its dollar signs and sets no formula."""
    return str(text).replace("$", r"\$")


def _headline(record: Mapping[str, Any], classes: Sequence[str], depth: int) -> str:
    budget = int(record["flip_budget"])
    flip = f"k* = {budget}" if budget <= depth else f"no flip in {depth} removals"
    return (
        f"case {record['case_id']}: {unformatted(classes[int(record['predicted'])])} "
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
