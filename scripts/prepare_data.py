"""Entry of rule prepare_data: fit the preprocessing, write matrix, groups and baselines."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table
    from cfc.data import DatasetSpec, read_dataset
    from cfc.stages.preprocess import prepare

    config = params_of(job)["config"]
    spec = DatasetSpec.from_mapping(unit_of(job)["dataset"], config["entry"])
    prepared, preprocessor = prepare(
        read_dataset(job.input.table),
        spec,
        read_table(job.input.split),
        grouping=config["grouping"],
        max_levels=config["max_levels"],
    )
    preprocessor.save(job.output.transformer)
    prepared.write(job.output.matrix, job.output.description, job.output.baselines, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
