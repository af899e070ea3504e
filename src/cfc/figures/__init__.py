"""Figures of a run: one module a figure, each drawn from one table read from disk."""

from importlib import import_module

from cfc.errors import ConfigError, nearest

# figure -> the table it is drawn from
FIGURES = {
    "brittle_ranking": "brittle_aggregate",
    "capture_curve": "capture_curve",
    "case_degradation": "case_degradation",
    "threshold_sensitivity": "thresholds",
    "calibration_curve": "calibration",
    "mitigation": "predictive",
    "natural_and_structure": "brittle_auroc",
    "paper_vs_ours": "paper_vs_ours",
}
# further tables of figures drawn from more than one: figure -> {argument: table}
ALSO = {"natural_and_structure": {"natural": "natural"}}


def draw_figure(figure_id: str, table, *, run: str, preset: str, also=None):
    """Draw one figure by name.

    Args:
        figure_id: a key of `FIGURES`.
        table: the data of its table as a ``pyarrow.Table`` or a DataFrame.
        run, preset: printed under the figure.
        also: further tables by name, for figures that are drawn from more than one.

    Returns:
        a ``matplotlib.figure.Figure``; `cfc.figures.style.write_figure` writes it.

    Raises:
        ConfigError: the name is unknown.
    """
    if figure_id not in FIGURES:
        raise ConfigError(f"figure {figure_id!r} is unknown; {nearest(figure_id, FIGURES)}")
    tables = {"table": table, **(also or {})}
    for name, held in tables.items():
        if hasattr(held, "column_names"):
            from cfc.tables.render import from_arrow

            tables[name] = from_arrow(held)
    module = import_module(f"cfc.figures.{figure_id}")
    return module.draw(tables.pop("table"), run=run, preset=preset, **tables)
