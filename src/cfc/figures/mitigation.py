"""Figure ``mitigation``: RCMA of the three neural families per data set (paper, Figure 4a)."""

import pandas as pd

from cfc.figures import style
from cfc.tables.base import pick

FAMILIES = ("mlp", "resmlp", "fr_resmlp")
_LOOK = {
    "mlp": (style.BLUE, "o"),
    "resmlp": (style.ORANGE, "s"),
    "fr_resmlp": (style.VERMILION, "D"),
}
_ROW = 0.34
_STEP = 0.22
_LOG_FROM = 20.0  # ratio of the largest to the smallest mean from which the axis is logarithmic


@style.in_style
def draw(table: pd.DataFrame, *, run: str, preset: str):
    """Draw mean RCMA over the uniform test sample, with the standard deviation over seeds.

    Args:
        table: data of the table ``predictive``.
        run, preset: printed under the figure.
    """
    cells = pick(table, level="cell", metric="mean_rcma")
    cells = cells[cells["model"].isin(FAMILIES)]
    datasets = list(dict.fromkeys(pick(table, level="cell")["dataset"]))
    figure = style.new_figure(style.COLUMN, _ROW * max(2, len(datasets)) + 0.95)
    axes = figure.subplots()
    axes.set_title("Stability of neural families")
    axes.set_yticks(range(len(datasets)), datasets)
    axes.set_ylim(len(datasets) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("mean RCMA (lower: more stable)")
    axes.grid(axis="x", color=style.PALE, linewidth=0.4)
    axes.set_axisbelow(True)
    values = cells["value"].dropna()
    if values.empty:
        style.say_undefined(axes, f"undefined: this run has no {', '.join(FAMILIES)}")
        style.footer(figure, run, preset)
        return figure
    if values.min() > 0 and values.max() / values.min() > _LOG_FROM:
        axes.set_xscale("log")
    for position, family in enumerate(FAMILIES):
        colour, marker = _LOOK[family]
        own = pick(cells, model=family).set_index("dataset")
        first = True
        for row, dataset in enumerate(datasets):
            y = row + (position - 1) * _STEP
            value = own["value"].get(dataset)
            if value is None or pd.isna(value):
                continue
            sd = own["sd"].get(dataset)
            if pd.notna(sd):
                low = max(value - sd, value * 0.05)
                axes.plot([low, value + sd], [y, y], color=colour, linewidth=0.9)
            axes.plot(
                value,
                y,
                marker=marker,
                markersize=4,
                color=colour,
                markeredgecolor=style.BLACK,
                markeredgewidth=0.4,
                linestyle="none",
                label=family if first else "_",
            )
            first = False
    figure.legend(loc="outside upper center", ncols=3)
    style.footer(figure, run, preset, "bar: standard deviation over seeds")
    return figure
