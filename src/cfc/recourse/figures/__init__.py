"""Figures of the recourse benchmark, each drawn from one table read from disk."""

from importlib import import_module

from cfc.errors import ConfigError, nearest

# figure -> the table it is drawn from
FIGURES = {
    "family_heatmap": "families",
    "coverage_robustness": "methods",
    "distance_robustness": "methods",
    "magnitude_robustness": "magnitude_robustness",
    "certificate_survival": "certificate_survival",
}


def draw_figure(figure_id: str, table, *, run: str, profile: str, titles: dict[str, str]):
    """Draw one figure by name.

    Args:
        figure_id: a key of `FIGURES`.
        table: the data of its table as a ``pyarrow.Table``.
        run, profile: printed under the figure.
        titles: printed names of data sets.

    Returns:
        a ``matplotlib.figure.Figure``; `cfc.figures.style.write_figure` writes it.

    Raises:
        ConfigError: the name is unknown.
    """
    from cfc.tables.render import from_arrow

    if figure_id not in FIGURES:
        raise ConfigError(f"figure {figure_id!r} is unknown; {nearest(figure_id, FIGURES)}")
    module = import_module(f"cfc.recourse.figures.{figure_id}")
    return module.draw(from_arrow(table), run=run, profile=profile, titles=titles)
