"""Entry of rule rank_cases: every ranking score of one unit, in both signs."""

from _job import logged, provenance


def main(job):
    from cfc.artifacts import read_metadata, read_table, write_table
    from cfc.stages.rank import rank_unit

    files = dict(job.input.items())
    optional = {
        name: read_table(files[name]) for name in ("exposure", "attribution") if name in files
    }
    table = rank_unit(
        read_table(job.input.certificates),
        read_metadata(job.input.certificates)["clip"],
        **optional,
    )
    write_table(table, job.output.ranks, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
