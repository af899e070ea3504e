"""Figure ``certificate_survival``: survival of recourse against the request's certificate."""

import pandas as pd

from cfc.figures import style
from cfc.recourse.families import FAMILIES
from cfc.recourse.methods.registry import METHODS
from cfc.recourse.results import family_title, in_known_order, method_title
from cfc.recourse.tables.certificate_survival import ALL, SHOWN
from cfc.tables.base import number

_PANELS = ("u", "k_exact", "u_given")


@style.in_style
def draw(table: pd.DataFrame, *, run: str, profile: str, titles: dict[str, str]):
    """Draw rank correlations of certificates with survival, method by family.

    Bold: the 95 % interval excludes 0. Without a fill: too few base models for an interval.
    """
    own = table[table["kind"] == "correlation"]
    methods = [ALL, *in_known_order(own["method"][own["method"] != ALL], METHODS)]
    families = [ALL, *in_known_order(own["family"][own["family"] != ALL], tuple(FAMILIES))]
    figure = style.new_figure(style.PAGE, 0.19 * len(methods) + 1.45)
    panels = figure.subplots(1, len(_PANELS), squeeze=False, sharey=True)[0]
    image = None
    for axes, score in zip(panels, _PANELS, strict=True):
        at = own[own["score"] == score].set_index(["method", "family"])
        decided = at["value"].where(at["low"].notna())
        wide = decided.unstack("family").reindex(index=methods, columns=families)
        image = axes.imshow(
            wide.to_numpy(dtype=float), cmap="PuOr", vmin=-0.5, vmax=0.5, aspect="auto"
        )
        axes.set_title(SHOWN[score], fontsize=7)
        names = ["all families", *[family_title(f) for f in families[1:]]]
        axes.set_xticks(range(len(families)), names, rotation=55)
        for label in axes.get_xticklabels():
            label.set_ha("right")
            label.set_rotation_mode("anchor")
        axes.set_yticks(
            range(len(methods)), ["all methods", *[method_title(m) for m in methods[1:]]]
        )
        axes.tick_params(length=0)
        for side in axes.spines.values():
            side.set_visible(False)
        for i, method in enumerate(methods):
            for j, family in enumerate(families):
                _write(axes, j, i, at.loc[(method, family)])
    bar = figure.colorbar(image, ax=panels, shrink=0.6, pad=0.01)
    bar.set_label("rank correlation with survival")
    bar.outline.set_visible(False)
    style.footer(
        figure,
        run,
        profile,
        "in hundredths; bold: 95 % interval over base models excludes 0; no fill: too few of them",
        label="profile",
    )
    return figure


def _write(axes, x: int, y: int, row: pd.Series) -> None:
    has_interval = pd.notna(row["low"])
    decided = has_interval and (row["low"] > 0 or row["high"] < 0)
    axes.text(
        x,
        y,
        number(100 * row["value"], 0, signed=True) if pd.notna(row["value"]) else "–",
        ha="center",
        va="center",
        fontsize=5.5,
        fontweight="bold" if decided else "normal",
        color=style.BLACK if has_interval else style.GREY,
    )
