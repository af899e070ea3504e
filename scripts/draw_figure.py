"""Entry of the figure rules: draw one figure from one table on disk."""

from pathlib import Path

from _job import logged, params_of


def main(job):
    from cfc.artifacts import read_table
    from cfc.figures import draw_figure
    from cfc.figures.style import write_figure

    params = params_of(job)
    config = params["config"]
    tables = {name: read_table(file) for name, file in job.input.items()}
    figure = draw_figure(
        params["figure"],
        tables.pop("table"),
        run=config["run"],
        preset=config["preset"],
        also=tables,
    )
    write_figure(figure, Path(job.output.svg).with_suffix(""))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
