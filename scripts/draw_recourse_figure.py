"""Entry of rule draw_recourse_figure: draw one figure of one profile from its table."""

from pathlib import Path

from _job import logged, params_of, unit_of


def main(job):
    from cfc.artifacts import read_table
    from cfc.figures.style import write_figure
    from cfc.recourse.figures import draw_figure

    config, unit = params_of(job)["config"], unit_of(job)
    figure = draw_figure(
        unit["figure"],
        read_table(job.input.table),
        run=config["run"],
        profile=unit["profile"],
        titles=config["titles"],
    )
    write_figure(figure, Path(job.output.svg).with_suffix(""))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
