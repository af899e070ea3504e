"""Figure ``calibration_curve``: reliability before and after the corrections (Table 17's cases)."""

import pandas as pd

from cfc.figures import style
from cfc.tables.base import pick

_LOOK = {
    "uncalibrated": (style.BLUE, "-", "o", "uncalibrated"),
    "global": (style.ORANGE, (0, (3, 1.5)), "s", "global T₀"),
    "brittleness_aware": (style.VERMILION, (0, (6, 1.5, 1, 1.5)), "^", "T₀ + η·Norm(FDS)"),
}
_PANELS = {"all": "all test cases", "fragile": "most fragile cases"}
_SMALLEST = 0.002  # a bin with a smaller share of the cases says nothing and is not drawn


@style.in_style
def draw(table: pd.DataFrame, *, run: str, preset: str):
    """Draw, for all cases and the fragile subset, share correct against confidence.

    Args:
        table: data of the table ``calibration``; its level ``bin`` is drawn.
        run, preset: printed under the figure.
    """
    bins = pick(table, level="bin")
    figure = style.new_figure(style.COLUMN, 3.0)
    panels = figure.subplots(2, 2, sharex="col", sharey="row", height_ratios=[3, 1], squeeze=False)
    for column, (subset, title) in enumerate(_PANELS.items()):
        own = pick(bins, subset=subset) if len(bins) else bins
        curve, share = panels[0][column], panels[1][column]
        curve.set_title(title)
        curve.plot([0, 1], [0, 1], color=style.GREY, linewidth=0.7, linestyle=(0, (2, 2)))
        curve.set_xlim(0.0, 1.02)
        curve.set_ylim(0.0, 1.02)
        share.set_xlabel("confidence")
        if not len(own):
            style.say_undefined(curve, "undefined: no unit was calibrated")
            continue
        for method, (colour, dashes, marker, _) in _LOOK.items():
            at = pick(own, score=method).sort_values("bin")
            seen = at[at["share"].astype(float) >= _SMALLEST]
            look = {"color": colour, "linestyle": dashes, "marker": marker, "markersize": 2.8}
            curve.plot(
                seen["confidence"].astype(float),
                seen["correct"].astype(float),
                markerfacecolor="white",
                markeredgewidth=0.8,
                **look,
            )
            middle = (at["bin"].astype(float) + 0.5) / (at["bin"].astype(float).max() + 1)
            share.step(
                middle,
                at["share"].astype(float),
                where="mid",
                color=colour,
                linestyle=dashes,
                linewidth=0.9,
            )
    panels[0][0].set_ylabel("share correct")
    panels[1][0].set_ylabel("share of\ncases")
    _legend(figure)
    style.footer(figure, run, preset, f"bins below {_SMALLEST:.1%} of the cases not drawn")
    return figure


def _legend(figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=colour,
            linestyle=dashes,
            marker=marker,
            markersize=3,
            markerfacecolor="white",
            label=label,
        )
        for colour, dashes, marker, label in _LOOK.values()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3, handlelength=2.6)
