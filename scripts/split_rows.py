"""Entry of rule split_rows: assign rows to train, validation and test."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import write_table
    from cfc.data import DatasetSpec, read_dataset
    from cfc.stages.split import split_rows

    params, unit = params_of(job), unit_of(job)
    spec = DatasetSpec.from_mapping(unit["dataset"], params["entry"])
    table, counts = split_rows(read_dataset(job.input.table), spec, params["config"], unit["seed"])
    write_table(table, job.output.split, {**provenance(job), **counts})


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
