"""How all figures look, and how they are written so that equal tables give equal bytes.

Colours are those of Okabe and Ito (safe for colour-blind readers); every series also differs by
marker or line style, so a figure can be read in grey. Widths are one journal column (3.5 inches),
or two where that cannot hold the content, at the size printed: type stays at 6 points or more.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cfc.artifacts import atomic_path

COLUMN = 3.5
PAGE = 7.2  # both columns, for figures with a whole grid to show
DPI = 220
BLUE, SKY, GREEN = "#0072B2", "#56B4E9", "#009E73"
ORANGE, VERMILION, PURPLE = "#E69F00", "#D55E00", "#CC79A7"
BLACK, GREY, PALE = "#000000", "#6E6E6E", "#D9D9D9"

_RC = {
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "axes.titlesize": 7.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
    "figure.constrained_layout.use": True,
    "svg.hashsalt": "cfc",
    "svg.fonttype": "path",
    "path.simplify": False,
}


@contextmanager
def styled() -> Iterator[None]:
    """Apply the style inside the block only, from the library's defaults."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


def in_style(draw: Callable) -> Callable:
    """Return a drawing function that runs inside `styled`."""
    from functools import wraps

    @wraps(draw)
    def inner(*args, **kwargs):
        with styled():
            return draw(*args, **kwargs)

    return inner


def new_figure(width: float, height: float):
    """Return an empty figure drawn by Agg, bound to no window and no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def footer(figure, run: str, preset: str, extra: str = "", label: str = "preset") -> None:
    """Write the run, the protocol preset (or what ``label`` says) and a remark under a figure."""
    parts = [f"run {run}", f"{label} {preset}", *([extra] if extra else [])]
    figure.supxlabel(" · ".join(parts), fontsize=6, color=GREY, x=0.01, ha="left")


def say_undefined(axes, text: str = "undefined") -> None:
    """Write into an empty panel that, and why, there is nothing to show."""
    import textwrap

    lines = "\n".join(textwrap.wrap(text, 24))
    axes.text(
        0.5,
        0.5,
        lines,
        transform=axes.transAxes,
        ha="center",
        va="center",
        fontsize=6.5,
        color=GREY,
        style="italic",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
    )


def write_figure(figure, stem: str | Path) -> None:
    """Write ``<stem>.svg`` and ``<stem>.png``, each atomically and without a date."""
    for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        buffer = io.BytesIO()
        with styled():
            figure.savefig(buffer, format=kind, metadata=metadata)
        with atomic_path(f"{stem}.{kind}") as temporary:
            temporary.write_bytes(buffer.getvalue())
