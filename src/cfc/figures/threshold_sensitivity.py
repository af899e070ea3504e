"""Figure ``threshold_sensitivity``: what the label's thresholds do (Figure 5)."""

import pandas as pd

from cfc.figures import style
from cfc.tables.base import pick
from cfc.tables.thresholds import best_confidence

_MARKERS = ("o", "s", "^", "D", "v")
_SHADES = (0.45, 0.7, 1.0)
_FDS = "CFC-FDS"


@style.in_style
def draw(table: pd.DataFrame, *, run: str, preset: str):
    """Draw selective risk and coverage above, and one panel a label rule below.

    Thin lines are data sets, the thick one their mean. Below: mean AUROC of FDS (full lines) and
    of the best confidence score in the risk sign (dashed) against τ_κ, one marker for each τ_p.

    Args:
        table: data of the table ``thresholds``.
        run, preset: printed under the figure.
    """
    cells = table[table["metric"] == "auroc"]
    rules = list(dict.fromkeys(cells["label_rule"]))
    rows = 1 + -(-len(rules) // 2)
    figure = style.new_figure(style.COLUMN, 1.5 * rows + 0.8)
    panels = figure.subplots(rows, 2, squeeze=False)
    _selective(panels[0, 0], table, "selective_risk", "error rate, %")
    _selective(panels[0, 1], table, "coverage", "predictions kept, %")
    handles: dict[str, object] = {}
    for axes, rule in zip(panels[1:].flat, rules, strict=False):
        _grid(axes, pick(cells, label_rule=rule), rule, handles)
    for axes in panels[1:].flat[len(rules) :]:
        axes.remove()
    for axes in panels[1:, 0]:
        axes.set_ylabel("AUROC")
    for axes in panels[-1][: len(rules) - 2 * (rows - 2)]:
        axes.set_xlabel("collapse threshold $τ_κ$")
    if handles:
        names = sorted(handles, key=lambda name: not name.startswith(_FDS))
        figure.legend(
            handles=[handles[name] for name in names],
            labels=names,
            loc="outside upper center",
            ncols=2,
            columnspacing=1.0,
            handlelength=2.2,
        )
    style.footer(figure, run, preset, "n/N: most units with a value/all units")
    return figure


def _selective(axes, table: pd.DataFrame, metric: str, label: str) -> None:
    own = pick(table, metric=metric)
    top = pick(own, level="aggregate").sort_values("tau_p")
    axes.set_title("selective risk" if metric == "selective_risk" else "coverage")
    axes.set_xlabel("confidence at least")
    axes.set_ylabel(label)
    if not top["value"].notna().any():
        style.say_undefined(axes, "undefined: no unit has a value")
        return
    for _, line in pick(own, level="dataset").groupby("dataset", sort=False):
        line = line.sort_values("tau_p")
        axes.plot(line["tau_p"], 100 * line["value"], color=style.GREY, linewidth=0.6)
    axes.plot(
        top["tau_p"],
        100 * top["value"],
        color=style.BLUE,
        linewidth=1.4,
        marker="o",
        markersize=2.5,
    )
    axes.set_ylim(bottom=0)


def _grid(axes, own: pd.DataFrame, rule: str, handles: dict) -> None:
    top = pick(own, level="aggregate")
    fds = pick(top, score="fds", sign="risk")
    defined, total = int(fds["n_defined"].max()), int((fds["n_defined"] + fds["n_undefined"]).max())
    axes.set_title(f"{rule} ({defined}/{total})")
    axes.set_ylim(0, 1.02)
    axes.set_yticks([0, 0.5, 1])
    grid = sorted(top["tau_kappa"].unique())
    axes.set_xticks(grid)
    room = 0.05 * (grid[-1] - grid[0]) or 0.05
    axes.set_xlim(grid[0] - room, grid[-1] + room)
    if not fds["value"].notna().any():
        style.say_undefined(axes, "undefined: no unit has a value")
        return
    axes.axhline(0.5, color=style.PALE, linewidth=0.7, zorder=0)
    for number, tau_p in enumerate(sorted(top["tau_p"].unique())):
        marker = _MARKERS[number % len(_MARKERS)]
        shade = _SHADES[min(number, len(_SHADES) - 1)]
        at = pick(top, tau_p=tau_p)
        best = [best_confidence(pick(at, tau_kappa=k), "risk") for k in grid]
        for title, values, colour, dashes in (
            (
                _FDS,
                [pick(at, tau_kappa=k, score="fds", sign="risk")["value"].iloc[0] for k in grid],
                style.VERMILION,
                "-",
            ),
            (
                "best confidence",
                [float("nan") if row is None else row["value"] for row in best],
                style.BLUE,
                (0, (3, 1.5)),
            ),
        ):
            (line,) = axes.plot(
                grid,
                values,
                color=colour,
                alpha=shade,
                linestyle=dashes,
                linewidth=1.0,
                marker=marker,
                markersize=3,
            )
            handles.setdefault(f"{title}, $τ_p$ {tau_p:g}", line)
