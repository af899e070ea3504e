"""Figure ``magnitude_robustness``: robustness against how many labels a family moves (ours)."""

import pandas as pd

from cfc.figures import style
from cfc.recourse.figures.distance_robustness import COLOURS, MARKERS
from cfc.recourse.methods.registry import METHODS
from cfc.recourse.results import family_title, in_known_order, method_title


@style.in_style
def draw(table: pd.DataFrame, *, run: str, profile: str, titles: dict[str, str]):
    """Draw one panel a data set: its families by labels moved, every method's robustness."""
    own = table[table["kind"] == "family"]
    datasets = list(dict.fromkeys(own["dataset"]))
    methods = in_known_order(own["method"], METHODS)
    figure = style.new_figure(style.PAGE, 3.3)
    panels = figure.subplots(1, len(datasets), squeeze=False, sharey=True)[0]
    for axes, dataset in zip(panels, datasets, strict=True):
        axes.set_title(titles.get(dataset, dataset))
        wide = own[own["dataset"] == dataset].pivot(index="family", columns="method")
        moved = wide["disagreement_pct"].mean(axis=1).sort_values(kind="stable")
        for i, method in enumerate(methods):
            axes.plot(
                range(len(moved)),
                wide["mean"][method].reindex(moved.index),
                marker=MARKERS[i % len(MARKERS)],
                color=COLOURS[i % len(COLOURS)],
                markersize=3.5,
                markeredgecolor=style.BLACK,
                markeredgewidth=0.3,
                linewidth=0.6,
                label=method_title(method) if dataset == datasets[0] else "_",
            )
        names = [f"{family_title(f)}, {moved[f]:.1f}" for f in moved.index]
        axes.set_xticks(range(len(moved)), names, rotation=90)
        axes.set_ylim(0, 104)
        axes.grid(color=style.PALE, linewidth=0.4)
        axes.set_axisbelow(True)
    panels[0].set_ylabel("changed models that accept, %")
    figure.legend(loc="outside upper center", ncols=5)
    remark = "families by the share of labels they move, in percent; mean over base models"
    style.footer(figure, run, profile, remark, label="profile")
    return figure
