"""Figure ``coverage_robustness``: coverage, robustness and their product (companion, Figure 2)."""

import pandas as pd

from cfc.figures import style
from cfc.recourse.methods.registry import METHODS
from cfc.recourse.results import in_known_order, method_title

_LOOK = {
    "coverage_pct": ("coverage", style.BLACK, "|"),
    "base_validity_pct": ("base validity", style.GREY, "x"),
    "empirical_robustness_pct": ("robustness", style.BLUE, "o"),
    "end_to_end_robustness_pct": ("end to end", style.VERMILION, "D"),
}


@style.in_style
def draw(table: pd.DataFrame, *, run: str, profile: str, titles: dict[str, str]):
    """Draw one panel a data set, one row a method; a line is one sd of end-to-end robustness."""
    datasets = list(dict.fromkeys(table["dataset"]))
    methods = in_known_order(table["method"], METHODS)
    height = 0.2 * len(methods) + 0.95
    figure = style.new_figure(style.PAGE, height)
    panels = figure.subplots(1, len(datasets), squeeze=False, sharey=True)[0]
    at = table.set_index(["dataset", "method", "metric"])
    for axes, dataset in zip(panels, datasets, strict=True):
        axes.set_title(titles.get(dataset, dataset))
        for y, method in enumerate(methods):
            for metric, (label, colour, marker) in _LOOK.items():
                row = at.loc[(dataset, method, metric)]
                if pd.isna(row["mean"]):
                    continue
                if metric == "end_to_end_robustness_pct" and pd.notna(row["sd"]):
                    low, high = row["mean"] - row["sd"], row["mean"] + row["sd"]
                    axes.plot([max(low, 0), min(high, 100)], [y, y], color=colour, linewidth=0.8)
                axes.plot(
                    row["mean"],
                    y,
                    marker=marker,
                    markersize=6 if marker == "|" else 3.5,
                    color=colour,
                    linestyle="none",
                    label=label if y == 0 and dataset == datasets[0] else "_",
                )
        axes.set_yticks(range(len(methods)), [method_title(m) for m in methods])
        axes.set_ylim(len(methods) - 0.5, -0.5)
        axes.set_xlim(-3, 103)
        axes.set_xlabel("%")
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="both", color=style.PALE, linewidth=0.4)
        axes.set_axisbelow(True)
    figure.legend(loc="outside upper center", ncols=len(_LOOK))
    style.footer(figure, run, profile, "mean over base models", label="profile")
    return figure
