"""Figure ``capture_curve``: share of brittle cases found against the review budget."""

import pandas as pd

from cfc.figures import style
from cfc.ranking import SCORES, score_info
from cfc.tables.base import pick
from cfc.tables.capture_curve import CEILING

MARKED = (0.05, 0.10, 0.20)
_COLUMNS = 2
_LOOK = {
    "rcma": (style.PURPLE, (0, (1, 1.2)), None),
    "fds": (style.VERMILION, "-", "D"),
    "one_step_relative": (style.SKY, (0, (4, 1.2)), "v"),
    "one_step_sum": (style.GREEN, (0, (6, 1.5, 1, 1.5)), "^"),
    "exposed_fds": (style.GREY, "-", "P"),
}
_SIGNS = {"risk": (style.BLUE, "-", "o"), "paper": (style.ORANGE, (0, (3, 1.5)), "s")}


@style.in_style
def draw(table: pd.DataFrame, *, run: str, preset: str):
    """Draw one panel a label rule.

    Shown: of each sign the confidence score with the highest mean capture over all budgets (all
    others are in the table), the certificate's scores, two one-step scores, the ceiling of a
    perfect ranking and the diagonal of a random one. Budgets of 5, 10 and 20 % are marked.

    Args:
        table: data of the table ``capture_curve``.
        run, preset: printed under the figure.
    """
    rules = list(dict.fromkeys(table["label_rule"]))
    columns = min(_COLUMNS, len(rules))
    rows = -(-len(rules) // columns)
    figure = style.new_figure(style.COLUMN, 1.62 * rows + 0.95)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    handles: dict[str, object] = {}
    for axes, rule in zip(panels.flat, rules, strict=False):
        _panel(axes, pick(table, label_rule=rule), rule, handles)
    for axes in panels.flat[len(rules) :]:
        axes.remove()
    for axes in panels[:, 0]:
        axes.set_ylabel("brittle cases found, %")
    for axes in panels[-1]:
        axes.set_xlabel("cases reviewed, %")
    if handles:
        figure.legend(
            handles=list(handles.values()),
            labels=list(handles),
            loc="outside upper center",
            ncols=2,
            columnspacing=1.2,
            handlelength=2.6,
        )
    style.footer(figure, run, preset, "n/N: units with a value/all units")
    return figure


def _panel(axes, own: pd.DataFrame, rule: str, handles: dict) -> None:
    defined = int(own["n_defined"].max())
    total = int((own["n_defined"] + own["n_undefined"]).max())
    axes.set_title(f"{rule} ({defined}/{total})")
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 102)
    axes.set_xticks([0, 20, 50, 100])
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.set_aspect("auto")
    if not own["capture"].notna().any():
        style.say_undefined(axes, "undefined: no unit has a value")
        return
    for q in MARKED:
        axes.axvline(100 * q, color=style.PALE, linewidth=0.7, zorder=0)
    axes.plot([0, 100], [0, 100], color=style.GREY, linewidth=0.6, zorder=1)
    ceiling = _curve(own, CEILING, "")
    (line,) = axes.plot(*ceiling, color=style.BLACK, linewidth=0.8, linestyle=(0, (1, 2)))
    handles.setdefault("ceiling (perfect ranking)", line)
    for score, sign in shown(own):
        colour, dashes, marker = _LOOK.get(score) or _SIGNS[sign]
        budget, capture = _curve(own, score, sign)
        at = [i for i, b in enumerate(budget) if round(b, 6) in [100 * q for q in MARKED]]
        (line,) = axes.plot(
            budget,
            capture,
            color=colour,
            linestyle=dashes,
            linewidth=1.1,
            marker=marker,
            markevery=at,
            markersize=3,
            markerfacecolor="white" if sign == "paper" else colour,
            markeredgewidth=0.8,
        )
        handles.setdefault(_label(score, sign), line)


def shown(own: pd.DataFrame) -> list[tuple[str, str]]:
    """Return the (score, sign) curves drawn in a panel, in drawing order."""
    means = own.groupby(["score", "sign"], sort=False)["capture"].mean()
    confidence = [info.name for info in SCORES if info.kind == "confidence"]
    chosen = []
    for sign in _SIGNS:
        found = {n: means.get((n, sign)) for n in confidence}
        found = {n: value for n, value in found.items() if value is not None and pd.notna(value)}
        if found:
            best = max(found.values()) - 1e-9
            chosen.append((next(n for n, value in found.items() if value >= best), sign))
    held = [name for name in _LOOK if pd.notna(means.get((name, "risk"), float("nan")))]
    return chosen + [(name, "risk") for name in held]


def _label(score: str, sign: str) -> str:
    if score in _LOOK:
        return score_info(score).title
    return f"best confidence, {'risk sign' if sign == 'risk' else 'paper’s sign'}"


def _curve(own: pd.DataFrame, score: str, sign: str) -> tuple:
    curve = pick(own, score=score, sign=sign).sort_values("budget")
    return 100 * curve["budget"].to_numpy(), 100 * curve["capture"].to_numpy()
