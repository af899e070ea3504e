"""Figure ``family_heatmap``: robustness of each method under each family (companion, Figure 1)."""

import pandas as pd

from cfc.figures import style
from cfc.recourse.families import FAMILIES
from cfc.recourse.methods.registry import METHODS
from cfc.recourse.results import family_title, in_known_order, method_title

_CELL_HEIGHT = 0.19
_DARK = 55  # cells below this percentage get white text


@style.in_style
def draw(table: pd.DataFrame, *, run: str, profile: str, titles: dict[str, str]):
    """Draw one panel a data set; each cell prints the mean over base models in percent."""
    datasets = list(dict.fromkeys(table["dataset"]))
    methods = in_known_order(table["method"], METHODS)
    families = in_known_order(table["family"], tuple(FAMILIES))
    columns = min(2, len(datasets))
    lines = -(-len(datasets) // columns)
    height = lines * (_CELL_HEIGHT * len(methods) + 0.25) + 1.15
    figure = style.new_figure(style.PAGE, height)
    panels = figure.subplots(lines, columns, squeeze=False, sharey=True, sharex=True)
    image = None
    for axes, dataset in zip(panels.ravel(), datasets, strict=False):
        own = table[table["dataset"] == dataset]
        wide = own.pivot(index="method", columns="family", values="mean")
        wide = wide.reindex(index=methods, columns=families)
        image = axes.imshow(wide.to_numpy(), cmap="cividis", vmin=0, vmax=100, aspect="auto")
        axes.set_title(titles.get(dataset, dataset))
        axes.set_xticks(range(len(families)), [family_title(f) for f in families], rotation=35)
        for label in axes.get_xticklabels():
            label.set_ha("right")
        axes.set_yticks(range(len(methods)), [method_title(m) for m in methods])
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
        for i, method in enumerate(methods):
            for j, family in enumerate(families):
                value = wide.loc[method, family]
                if pd.isna(value):
                    axes.text(j, i, "–", ha="center", va="center", fontsize=6)
                    continue
                colour = "white" if value < _DARK else style.BLACK
                text = f"{value:.0f}"
                axes.text(j, i, text, ha="center", va="center", fontsize=6, color=colour)
    for axes in panels.ravel()[len(datasets) :]:
        axes.set_visible(False)
    if image is not None:
        bar = figure.colorbar(image, ax=panels, shrink=0.6, pad=0.01)
        bar.set_label("changed models that accept, %")
        bar.outline.set_visible(False)
    style.footer(figure, run, profile, "mean over base models", label="profile")
    return figure
