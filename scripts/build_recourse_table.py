"""Entry of rule build_recourse_table: one table of one profile of the recourse benchmark."""

from pathlib import Path

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.recourse.results import Results
    from cfc.recourse.tables import build_table
    from cfc.tables.render import write_table_files

    config, unit = params_of(job)["config"], unit_of(job)
    stem = Path(job.output.parquet).with_suffix("")
    results = Results(
        folder=stem.parent.parent,
        profile=unit["profile"],
        reference=Path(job.input.reference),
        **config,
    )
    write_table_files(build_table(unit["table"], results), stem, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
