"""Figure ``distance_robustness``: what robustness costs in distance (companion, Figure 3)."""

import pandas as pd

from cfc.figures import style
from cfc.recourse.methods.registry import METHODS
from cfc.recourse.results import in_known_order, method_title

COLOURS = (
    style.GREY,
    style.PURPLE,
    style.ORANGE,
    style.BLACK,
    style.BLUE,
    style.GREEN,
    style.SKY,
    style.VERMILION,
    "#8B0000",
)
MARKERS = "oPs^vDX<>*hp"


@style.in_style
def draw(table: pd.DataFrame, *, run: str, profile: str, titles: dict[str, str]):
    """Draw one panel a data set; the line joins methods no other beats in both respects."""
    datasets = list(dict.fromkeys(table["dataset"]))
    methods = in_known_order(table["method"], METHODS)
    figure = style.new_figure(style.PAGE, 2.35)
    panels = figure.subplots(1, len(datasets), squeeze=False, sharey=True)[0]
    at = table.set_index(["dataset", "method", "metric"])["mean"]
    for axes, dataset in zip(panels, datasets, strict=True):
        axes.set_title(titles.get(dataset, dataset))
        points = {}
        for i, method in enumerate(methods):
            x = at[dataset, method, "scaled_l1_distance"]
            y = at[dataset, method, "end_to_end_robustness_pct"]
            if pd.isna(x) or pd.isna(y):
                continue
            points[method] = (x, y)
            axes.plot(
                x,
                y,
                marker=MARKERS[i % len(MARKERS)],
                color=COLOURS[i % len(COLOURS)],
                markersize=4.5,
                markeredgecolor=style.BLACK,
                markeredgewidth=0.4,
                linestyle="none",
                label=method_title(method) if dataset == datasets[0] else "_",
            )
        front = frontier(list(points.values()))
        xs, ys = [p[0] for p in front], [p[1] for p in front]
        axes.plot(xs, ys, color=style.GREY, linewidth=0.8, zorder=0)
        axes.set_xlabel("scaled L1 distance")
        axes.grid(color=style.PALE, linewidth=0.4)
        axes.set_axisbelow(True)
    panels[0].set_ylabel("end-to-end robustness, %")
    figure.legend(loc="outside upper center", ncols=5)
    style.footer(
        figure, run, profile, "line: not beaten in distance and robustness at once", label="profile"
    )
    return figure


def frontier(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points (distance, robustness) no other point beats in both, by distance."""
    kept, best = [], float("-inf")
    for x, y in sorted(points, key=lambda p: (p[0], -p[1])):
        if y > best:
            kept.append((x, y))
            best = y
    return kept
