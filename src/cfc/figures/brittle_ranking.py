"""Figure ``brittle_ranking``: AUROC of every score with its spread over units (Figure 4b)."""

import textwrap

import numpy as np
import pandas as pd

from cfc.figures import style
from cfc.ranking import score_info
from cfc.tables.base import pick

_ROW = 0.165
_LABEL_WIDTH = 19
_STEP = 0.30  # vertical distance of the two signs of a confidence score, in rows
_LOOK = {
    ("confidence", "risk"): (style.BLUE, "o", "confidence, risk sign"),
    ("confidence", "paper"): (style.ORANGE, "s", "confidence, paper's sign"),
    ("certificate", "risk"): (style.VERMILION, "D", "certificate"),
    ("attribution", "risk"): (style.PURPLE, "v", "attribution"),
    ("ours", "risk"): (style.GREEN, "^", "ours"),
}


@style.in_style
def draw(table: pd.DataFrame, *, run: str, preset: str):
    """Draw one panel a label rule: one dot a unit, and the mean with its 95 % interval.

    Args:
        table: data of the table ``brittle_aggregate``.
        run, preset: printed under the figure.
    """
    rules = list(dict.fromkeys(table["label_rule"]))
    table = pick(table, metric="auroc")
    scores = list(dict.fromkeys(table["score"]))
    height = len(rules) * (0.36 + _ROW * len(scores)) + 0.75
    figure = style.new_figure(style.COLUMN, height)
    panels = figure.subplots(len(rules), 1, sharex=True, squeeze=False)[:, 0]
    for axes, rule in zip(panels, rules, strict=True):
        _panel(axes, pick(table, label_rule=rule), rule, scores)
    panels[-1].set_xlabel("brittle-case AUROC")
    _legend(figure, table)
    style.footer(figure, run, preset, "n/N: units with a value/all units")
    return figure


def _panel(axes, own: pd.DataFrame, rule: str, scores: list[str]) -> None:
    top = pick(own, level="aggregate")
    # a score that was computed for some cases only may be defined in fewer units
    defined, total = top["n_defined"].max(), (top["n_defined"] + top["n_undefined"]).max()
    axes.set_title(f"{rule} ({int(defined)}/{int(total)} units)")
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(len(scores) - 0.4, -0.6)
    axes.set_yticks(range(len(scores)), [_title(name) for name in scores])
    axes.tick_params(axis="y", length=0)
    axes.axvline(0.5, color=style.GREY, linewidth=0.7, linestyle=(0, (3, 2)), zorder=0)
    axes.grid(axis="x", color=style.PALE, linewidth=0.4)
    axes.set_axisbelow(True)
    if not top["value"].notna().any():
        style.say_undefined(axes, "undefined: no unit has a value")
        return
    units = pick(own, level="unit")
    for row in top.itertuples(index=False):
        colour, marker, _ = _look(row.score, row.sign)
        y = scores.index(row.score) + _offset(row.score, row.sign)
        values = pick(units, score=row.score, sign=row.sign)["value"].dropna().to_numpy()
        axes.plot(
            values,
            y + _jitter(len(values)),
            linestyle="none",
            marker=".",
            markersize=2.2 if len(values) > 40 else 3.5,
            markeredgewidth=0,
            color=colour,
            alpha=0.35 if len(values) > 40 else 0.7,
            zorder=1,
        )
        if pd.isna(row.value):
            axes.text(0.5, y, "undefined", fontsize=6, color=style.GREY, va="center", ha="center")
            continue
        axes.plot([row.units_low, row.units_high], [y, y], color=style.BLACK, linewidth=1, zorder=2)
        axes.plot(
            row.value,
            y,
            marker=marker,
            markersize=3.8,
            markerfacecolor="white" if row.sign == "paper" else colour,
            markeredgecolor=colour if row.sign == "paper" else style.BLACK,
            markeredgewidth=0.9 if row.sign == "paper" else 0.4,
            zorder=3,
        )


def _kind(score: str) -> str:
    info = score_info(score)
    return info.kind if info else "ours"


def _look(score: str, sign: str) -> tuple[str, str, str]:
    return _LOOK[_kind(score), sign]


def _title(score: str) -> str:
    info = score_info(score)
    title = info.title if info else score
    return textwrap.fill(title, _LABEL_WIDTH)


def _offset(score: str, sign: str) -> float:
    if _kind(score) != "confidence":
        return 0.0
    return -_STEP / 2 - 0.05 if sign == "risk" else _STEP / 2 + 0.05


def _jitter(n: int) -> np.ndarray:
    """Return small offsets that spread equal values apart, the same at every drawing."""
    golden = (np.arange(n) * 0.6180339887498949) % 1.0
    return (golden - 0.5) * 0.22


def _legend(figure, table: pd.DataFrame) -> None:
    from matplotlib.lines import Line2D

    present = {(_kind(s), g) for s, g in zip(table["score"], table["sign"], strict=True)}
    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=marker,
            markersize=4,
            markerfacecolor="white" if key[1] == "paper" else colour,
            markeredgecolor=colour if key[1] == "paper" else style.BLACK,
            markeredgewidth=0.9 if key[1] == "paper" else 0.4,
            label=label,
        )
        for key, (colour, marker, label) in _LOOK.items()
        if key in present
    ]
    handles.append(Line2D([], [], color=style.BLACK, linewidth=1, label="95 % interval over units"))
    handles.append(
        Line2D([], [], linestyle="none", marker=".", color=style.GREY, markersize=3, label="a unit")
    )
    figure.legend(handles=handles, loc="outside upper center", ncols=2, columnspacing=1.2)
