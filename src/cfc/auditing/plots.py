"""A case, or all cases of an audit, drawn with Matplotlib."""

from collections.abc import Mapping
from typing import Any

from cfc.artifacts import to_numpy
from cfc.auditing.cases import alone_of, score_name
from cfc.auditing.words import CONFIDENT, decimal_text


def plot_case(record: Mapping[str, Any], facts: Mapping[str, Any], axes=None):
    """Draw the margin of a case while groups are removed.

    Args:
        record: one row of the audit's table.
        facts: the audit's facts.
        axes: Matplotlib Axes to draw into; default: those of a new figure.

    Returns:
        the Axes.
    """
    from cfc.figures.certificate import draw_collapse

    axes = _axes(axes, (7.0, 4.0))
    draw_collapse(axes, {**record, "case_id": record["index"]}, facts["classes"])
    return axes


def plot_audit(table, facts: Mapping[str, Any], axes=None):
    """Draw the cases of an audit: confidence against the score they are ranked by.

    Cases that some single group flips are marked. The score is on a logarithmic scale where it
    spans more than a factor of 30.

    Args:
        table: the audit's table.
        facts: the audit's facts.
        axes: Matplotlib Axes to draw into; default: those of a new figure.

    Returns:
        the Axes.
    """
    from cfc.figures.style import BLUE, GREY, VERMILION

    axes = _axes(axes, (7.0, 4.5))
    confidence, score = to_numpy(table["confidence"]), to_numpy(table[facts["rank_by"]])
    fragile = alone_of(table, facts).any(axis=1)
    marks = (
        (~fragile, "o", BLUE, "needs more than one group, or does not flip"),
        (fragile, "X", VERMILION, "flips on losing one group"),
    )
    for member, marker, colour, label in marks:
        axes.scatter(
            confidence[member],
            score[member],
            s=30 if marker == "X" else 14,
            marker=marker,
            c=colour,
            alpha=0.7,
            linewidths=0,
            label=f"{label} ({member.sum():,})",
            rasterized=len(table) > 5000,
        )
    axes.axvline(CONFIDENT, color=GREY, linewidth=0.8, linestyle="--")
    if len(score) and score.min() > 0 and score.max() > 30 * score.min():
        axes.set_yscale("log")
    axes.set_xlabel(f"confidence p̂ (dashed: {decimal_text(CONFIDENT)})")
    axes.set_ylabel(f"fragility {score_name(facts)}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small")
    return axes


def _axes(axes, size: tuple[float, float]):
    if axes is not None:
        return axes
    # pyplot, so that a notebook shows the figure by itself
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]
