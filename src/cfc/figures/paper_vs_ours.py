"""Figure ``paper_vs_ours``: every printed figure beside ours with its interval."""

import pandas as pd

from cfc.figures import style
from cfc.tables.base import pick
from cfc.tables.paper_vs_ours import figure_title

_ROW = 0.135
_LOOK = {
    "reproduced": (style.GREEN, "o"),
    "same direction": (style.BLUE, "s"),
    "not reproduced": (style.VERMILION, "X"),
    "undefined": (style.GREY, None),
}


@style.in_style
def draw(table: pd.DataFrame, *, run: str, preset: str):
    """Draw one row a figure: the printed value as a bar, ours as a mark with its interval.

    Args:
        table: data of the table ``paper_vs_ours``.
        run, preset: printed under the figure.
    """
    rows = table[table["metric"] != "cases"].to_dict("records")
    blocks = _columns(rows)
    tallest = max(len(block) for block in blocks)
    figure = style.new_figure(style.PAGE, _ROW * tallest + 0.9)
    panels = figure.subplots(1, len(blocks), squeeze=False)[0]
    for axes, block in zip(panels, blocks, strict=True):
        _panel(axes, block, tallest)
    _legend(figure, table)
    style.footer(figure, run, preset, "confidence scores and gains in the paper's sign")
    return figure


def _columns(rows: list[dict]) -> list[list[dict]]:
    """Cut the rows in two columns of about equal length, between two sources."""
    lines: list[dict] = []
    source = None
    for row in rows:
        if row["source"] != source:
            source = row["source"]
            lines.append({"heading": source})
        lines.append(row)
    cuts = [i for i, line in enumerate(lines) if "heading" in line and i]
    if not cuts:
        return [lines]
    cut = min(cuts, key=lambda i: abs(i - len(lines) / 2))
    return [lines[:cut], lines[cut:]]


def _panel(axes, block: list[dict], tallest: int) -> None:
    labels = []
    for y, row in enumerate(block):
        if "heading" in row:
            labels.append(row["heading"])
            continue
        where = "" if row["dataset"] == "all" else f", {row['dataset']}"
        metric = "" if row["metric"] == "auroc" else f", {row['metric'].replace('_', ' ')}"
        labels.append(f"{figure_title(row)}{metric}{where}")
        colour, marker = _LOOK[row["verdict"]]
        axes.plot([row["paper"]] * 2, [y - 0.36, y + 0.36], color=style.BLACK, linewidth=1.4)
        if marker is None:
            _say_undefined(axes, row["paper"], y)
            continue
        if pd.notna(row["low"]):
            axes.plot([row["low"], row["high"]], [y, y], color=colour, linewidth=1)
        axes.plot(row["ours"], y, marker=marker, markersize=3.2, color=colour, linestyle="none")
    axes.set_yticks(range(len(block)), labels, fontsize=5.5)
    for label, row in zip(axes.get_yticklabels(), block, strict=True):
        if "heading" in row:
            label.set_fontweight("bold")
    axes.set_ylim(tallest - 0.4, -0.6)
    axes.set_xlim(-0.06, 1.14)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=style.PALE, linewidth=0.4)
    axes.set_axisbelow(True)
    axes.axvline(0.5, color=style.GREY, linewidth=0.6, linestyle=(0, (3, 2)), zorder=0)


def _say_undefined(axes, paper: float, y: int) -> None:
    is_right = paper > 0.7  # no room on that side of the printed value
    axes.text(
        paper + (-0.03 if is_right else 0.03),
        y,
        "undefined",
        fontsize=5,
        color=style.GREY,
        va="center",
        ha="right" if is_right else "left",
    )


def _legend(figure, table: pd.DataFrame) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            marker="|",
            color=style.BLACK,
            markersize=6,
            markeredgewidth=1.4,
            label="printed",
        )
    ]
    for verdict, (colour, marker) in _LOOK.items():
        count = len(pick(table, verdict=verdict))
        if marker:
            handles.append(
                Line2D(
                    [],
                    [],
                    linestyle="-",
                    linewidth=1,
                    marker=marker,
                    markersize=3.5,
                    color=colour,
                    label=f"ours: {verdict} ({count})",
                )
            )
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles))
