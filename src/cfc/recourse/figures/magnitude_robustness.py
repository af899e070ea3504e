"""Figure ``magnitude_robustness``: robustness against how many labels a family moves (ours)."""

import pandas as pd

from cfc.figures import style
from cfc.recourse.figures.distance_robustness import COLOURS, MARKERS
from cfc.recourse.methods.registry import METHODS
from cfc.recourse.results import in_known_order, method_title


@style.in_style
def draw(table: pd.DataFrame, *, run: str, profile: str, titles: dict[str, str]):
    """Draw one panel a data set, one line a method through its families by labels moved."""
    own = table[table["kind"] == "family"]
    datasets = list(dict.fromkeys(own["dataset"]))
    methods = in_known_order(own["method"], METHODS)
    figure = style.new_figure(style.PAGE, 2.5)
    panels = figure.subplots(1, len(datasets), squeeze=False, sharey=True)[0]
    for axes, dataset in zip(panels, datasets, strict=True):
        axes.set_title(titles.get(dataset, dataset))
        for i, method in enumerate(methods):
            at = own[(own["dataset"] == dataset) & (own["method"] == method)]
            at = at.sort_values("disagreement_pct", kind="stable")
            axes.plot(
                at["disagreement_pct"],
                at["mean"],
                marker=MARKERS[i % len(MARKERS)],
                color=COLOURS[i % len(COLOURS)],
                markersize=3.5,
                markeredgecolor=style.BLACK,
                markeredgewidth=0.3,
                linewidth=0.7,
                label=method_title(method) if dataset == datasets[0] else "_",
            )
        axes.set_xlim(left=0)
        axes.set_ylim(0, 104)
        axes.set_xlabel("labels moved, %")
        axes.grid(color=style.PALE, linewidth=0.4)
        axes.set_axisbelow(True)
    panels[0].set_ylabel("changed models that accept, %")
    figure.legend(loc="outside upper center", ncols=5)
    style.footer(
        figure, run, profile, "a point: a family of change, mean over base models", label="profile"
    )
    return figure
