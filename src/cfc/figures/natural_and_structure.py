"""Figure ``natural_and_structure``: natural unavailability, and AUROC by unit (paper, Figure 2)."""

import numpy as np
import pandas as pd

from cfc.figures import style
from cfc.ranking import score_info
from cfc.tables.base import pick, score_title

RULE = "literal"  # where the run has it; else its first
_CONFIDENCE = "max_softmax"
# score, sign; those the run lacks are left out
_BARS = (
    ("max_softmax", "paper"),
    ("max_softmax", "risk"),
    ("one_step", "risk"),
    ("group_shap", "risk"),
    ("rcma", "risk"),
    ("fds", "risk"),
    ("one_step_relative", "risk"),
    ("one_step_sum", "risk"),
    ("exposed_fds", "risk"),
)
_COLOUR = {
    "confidence": style.BLUE,
    "certificate": style.VERMILION,
    "attribution": style.PURPLE,
    "ours": style.GREEN,
}
_HATCH = {"confidence": "", "certificate": "///", "attribution": "...", "ours": "\\\\\\"}
_MARKERS = "osD^vP*"


@style.in_style
def draw(table: pd.DataFrame, *, run: str, preset: str, natural: pd.DataFrame):
    """Draw AUROC bars under the natural label, and two heat maps of data set x family.

    Args:
        table: data of the table ``brittle_auroc``, for the heat maps.
        run, preset: printed under the figure.
        natural: data of the table ``natural``, for the bars.
    """
    held = [rule for rule in dict.fromkeys(table["label_rule"]) if rule]
    rule = RULE if RULE in held else held[0]
    units = pick(table, level="unit", metric="auroc", label_rule=rule)
    datasets = list(dict.fromkeys(units["dataset"]))
    models = list(dict.fromkeys(units["model"]))
    figure = style.new_figure(style.PAGE, max(2.4, 0.26 * len(datasets) + 1.4))
    bars, left, right = figure.subplots(1, 3, width_ratios=[1.15, 1, 1])
    _bars(bars, natural)
    image = None
    for axes, score, title in ((left, _CONFIDENCE, "confidence, risk sign"), (right, "fds", "FDS")):
        grid = _grid(units, score, datasets, models)
        image = _heat_map(axes, grid, datasets, models)
        axes.set_title(title)
    right.set_yticklabels([])
    colour_bar = figure.colorbar(image, ax=[left, right], fraction=0.04, pad=0.02)
    colour_bar.set_label(f"AUROC, label {rule}")
    style.footer(
        figure, run, preset, "bars: mean over data sets, one mark a data set; -: undefined"
    )
    return figure


def _bars(axes, natural: pd.DataFrame) -> None:
    own = pick(natural, metric="auroc", label_rule=RULE)
    held = set(zip(own["score"], own["sign"], strict=True))
    shown = [pair for pair in _BARS if pair in held]
    axes.set_title("natural unavailability")
    axes.set_xlim(0, 1.02)
    axes.set_xlabel("AUROC")
    top = pick(own, level="aggregate")
    if not top["value"].notna().any():
        style.say_undefined(axes, "undefined: no unit has a value")
        axes.set_yticks([])
        return
    sets = pick(own, level="dataset")
    names = list(dict.fromkeys(sets.loc[sets["value"].notna(), "dataset"]))
    for y, (score, sign) in enumerate(shown):
        value = pick(top, score=score, sign=sign)["value"].iloc[0]
        info = score_info(score)
        kind = info.kind if info else "ours"
        axes.barh(
            y,
            0 if pd.isna(value) else value,
            height=0.62,
            color=_COLOUR[kind],
            alpha=0.55,
            hatch=_HATCH[kind],
            edgecolor=style.BLACK,
            linewidth=0.4,
        )
        at = pick(sets, score=score, sign=sign).set_index("dataset")["value"]
        for number, name in enumerate(names):
            axes.plot(
                at.get(name, np.nan),
                y,
                marker=_MARKERS[number % len(_MARKERS)],
                markersize=3,
                markerfacecolor="white",
                markeredgecolor=style.BLACK,
                markeredgewidth=0.6,
                linestyle="none",
                label=name if y == 0 else "_",
            )
    axes.set_yticks(range(len(shown)), [_title(*pair) for pair in shown])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.axvline(0.5, color=style.GREY, linewidth=0.7, linestyle=(0, (3, 2)))
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.35, -0.2), ncols=4, fontsize=6, handletextpad=0.1
    )


def _title(score: str, sign: str) -> str:
    text = score_title(score, sign).removesuffix(" (ours)").removesuffix(" sign")
    return text.replace(", paper", " (paper’s sign)").replace(", risk", " (risk sign)")


def _grid(units: pd.DataFrame, score: str, datasets: list[str], models: list[str]) -> np.ndarray:
    own = pick(units, score=score, sign="risk")
    means = own.groupby(["dataset", "model"])["value"].mean()
    return np.array([[means.get((d, m), np.nan) for m in models] for d in datasets], dtype=float)


def _heat_map(axes, grid: np.ndarray, datasets: list[str], models: list[str]):
    from matplotlib import colormaps

    colours = colormaps["cividis"].with_extremes(bad=style.PALE)
    image = axes.imshow(np.ma.masked_invalid(grid), cmap=colours, vmin=0, vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(grid):
        text = "-" if np.isnan(value) else f"{value:.2f}".removeprefix("0")
        dark = not np.isnan(value) and value < 0.55
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontsize=5.5,
            color="white" if dark else style.BLACK,
        )
    axes.set_xticks(range(len(models)), models, rotation=55, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(datasets)), datasets)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return image
