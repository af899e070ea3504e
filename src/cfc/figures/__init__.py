"""Figures of a run: one module a figure, each drawn from one table read from disk."""

from importlib import import_module

from cfc.errors import ConfigError, nearest

# figure -> the table it is drawn from
FIGURES = {
    "brittle_ranking": "brittle_aggregate",
    "capture_curve": "capture_curve",
    "case_degradation": "case_degradation",
}


def draw_figure(figure_id: str, table, *, run: str, preset: str):
    """Draw one figure by name.

    Args:
        figure_id: a key of `FIGURES`.
        table: the data of its table as a ``pyarrow.Table`` or a DataFrame.
        run, preset: printed under the figure.

    Returns:
        a ``matplotlib.figure.Figure``; `cfc.figures.style.write_figure` writes it.

    Raises:
        ConfigError: the name is unknown.
    """
    if figure_id not in FIGURES:
        raise ConfigError(f"figure {figure_id!r} is unknown; {nearest(figure_id, FIGURES)}")
    if not hasattr(table, "columns") or hasattr(table, "column_names"):
        from cfc.tables.render import from_arrow

        table = from_arrow(table)
    return import_module(f"cfc.figures.{figure_id}").draw(table, run=run, preset=preset)
