"""Figure ``certificate_survival``: survival of recourse against the request's certificate."""

import pandas as pd

from cfc.figures import style
from cfc.recourse.families import FAMILIES
from cfc.recourse.methods.registry import METHODS
from cfc.recourse.results import family_title, in_known_order, method_title
from cfc.recourse.tables.certificate_survival import ALL, SCORES

_SCORES = ("u", "k_exact")


@style.in_style
def draw(table: pd.DataFrame, *, run: str, profile: str, titles: dict[str, str]):
    """Draw rank correlations of FDS and exact flip budget with survival, method by family.

    A filled cell with bold text has a 95 % interval without 0.
    """
    own = table[table["kind"] == "correlation"]
    methods = [ALL, *in_known_order(own["method"][own["method"] != ALL], METHODS)]
    families = [ALL, *in_known_order(own["family"][own["family"] != ALL], tuple(FAMILIES))]
    figure = style.new_figure(style.PAGE, 0.19 * len(methods) + 1.35)
    panels = figure.subplots(1, len(_SCORES), squeeze=False, sharey=True)[0]
    image = None
    for axes, score in zip(panels, _SCORES, strict=True):
        at = own[own["score"] == score].set_index(["method", "family"])
        wide = at["value"].unstack("family").reindex(index=methods, columns=families)
        image = axes.imshow(wide.to_numpy(dtype=float), cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
        axes.set_title(SCORES[score])
        names = ["all families", *[family_title(f) for f in families[1:]]]
        axes.set_xticks(range(len(families)), names, rotation=35)
        for label in axes.get_xticklabels():
            label.set_ha("right")
        axes.set_yticks(
            range(len(methods)), ["all methods", *[method_title(m) for m in methods[1:]]]
        )
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
        for i, method in enumerate(methods):
            for j, family in enumerate(families):
                row = at.loc[(method, family)]
                if pd.isna(row["value"]):
                    axes.text(j, i, "–", ha="center", va="center", fontsize=6)
                    continue
                decided = row["low"] > 0 or row["high"] < 0
                axes.text(
                    j,
                    i,
                    f"{row['value']:+.2f}".replace("-", "−"),
                    ha="center",
                    va="center",
                    fontsize=6,
                    fontweight="bold" if decided else "normal",
                    color="white" if abs(row["value"]) > 0.65 else style.BLACK,
                )
    bar = figure.colorbar(image, ax=panels, shrink=0.6, pad=0.01)
    bar.set_label("Spearman with survival")
    bar.outline.set_visible(False)
    style.footer(
        figure, run, profile, "bold: 95 % interval over base models excludes 0", label="profile"
    )
    return figure
