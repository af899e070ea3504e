"""Entry of rule prepare_recourse: clean, split and standardise one data set for recourse."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.data import DatasetSpec, read_dataset
    from cfc.recourse.data import prepare
    from cfc.recourse.seeds import SeedPlan

    params, unit = params_of(job), unit_of(job)
    spec = DatasetSpec.from_mapping(unit["dataset"], params["entry"])
    plan = SeedPlan(unit["profile"], unit["dataset"])
    data = prepare(read_dataset(job.input.table), spec, seed=plan.seed("split"), **params["config"])
    data.write(job.output.data, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
