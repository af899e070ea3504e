"""Figure ``case_degradation``: one case a data set along its removal path (paper, Figure 3)."""

import numpy as np
import pandas as pd

from cfc.figures import style
from cfc.tables.base import pick

_COLUMNS = 2
FLOOR = -2.0  # a margin lost more than three times over is drawn here, with an arrow
_LOOK = {
    "nominal": (style.BLUE, "-", "o"),
    "stable": (style.VERMILION, (0, (4, 1.5)), "s"),
}


@style.in_style
def draw(table: pd.DataFrame, *, run: str, preset: str):
    """Draw one panel a data set: margin over its first value, against groups removed.

    Args:
        table: data of the table ``case_degradation``.
        run, preset: printed under the figure.
    """
    datasets = list(dict.fromkeys(table["dataset"]))
    columns = min(_COLUMNS, len(datasets))
    rows = -(-len(datasets) // columns)
    figure = style.new_figure(style.COLUMN, 1.3 * rows + 0.7)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    values = table["relative_margin"].astype("float64")
    low = max(FLOOR, float(values.min())) if values.notna().any() else 0.0
    depth = int(table["step"].astype("float64").max()) if table["step"].notna().any() else 1
    for axes, dataset in zip(panels.flat, datasets, strict=False):
        axes.set_xlim(-0.3, depth + 0.3)
        axes.set_ylim(min(low - 0.15, -0.15), max(1.15, float(values.max()) + 0.1))
        _panel(axes, pick(table, dataset=dataset), dataset)
    for index in range(len(datasets) - columns, len(datasets)):
        panels.flat[index].tick_params(labelbottom=True)
    for axes in panels[-1]:
        axes.set_xlabel("groups removed")
    for axes in panels[:, 0]:
        axes.set_ylabel("margin / first")
    for axes in panels.flat[len(datasets) :]:
        axes.remove()
    _legend(figure)
    style.footer(figure, run, preset, "below 0: the label flipped")
    return figure


def _panel(axes, own: pd.DataFrame, dataset: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.axhspan(-1e3, 0, color=style.PALE, alpha=0.45, linewidth=0, zorder=0)
    axes.axhline(0, color=style.GREY, linewidth=0.6, zorder=1)
    axes.set_title(dataset)
    reasons = [reason for reason in own["reason"] if reason]
    if reasons or not own["relative_margin"].notna().any():
        why = reasons[0] if reasons else "the case has no margin"
        style.say_undefined(axes, f"undefined: {why}")
        return
    same = own["model"].nunique() == 1
    for role, (colour, dashes, marker) in _LOOK.items():
        path = pick(own, role=role).sort_values("step")
        margin = path["relative_margin"].to_numpy(dtype=float)
        step = path["step"].to_numpy(dtype=float)
        axes.plot(
            step,
            np.maximum(margin, FLOOR),
            color=colour,
            linestyle=dashes,
            marker=marker,
            markersize=3,
            markerfacecolor=colour if role == "nominal" else "white",
            markeredgewidth=0.8,
            label="_" if same and role == "stable" else _family(path, same),
        )
        below = margin < FLOOR
        axes.plot(step[below], np.full(below.sum(), FLOOR), "v", color=colour, markersize=4.5)
    axes.legend(loc="best", fontsize=6, handlelength=2.2, borderaxespad=0.2, labelspacing=0.2)


def _family(path: pd.DataFrame, same: bool) -> str:
    return path["model"].iloc[0] + (" is both" if same else "")


def _legend(figure) -> None:
    from matplotlib.lines import Line2D

    names = {"nominal": "highest test AUROC", "stable": "lowest mean RCMA"}
    handles = [
        Line2D(
            [],
            [],
            color=colour,
            linestyle=dashes,
            marker=marker,
            markersize=3,
            markerfacecolor=colour if role == "nominal" else "white",
            markeredgewidth=0.8,
            label=names[role],
        )
        for role, (colour, dashes, marker) in _LOOK.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, handlelength=2.6)
