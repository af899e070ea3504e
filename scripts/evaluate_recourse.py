"""Entry of rule evaluate_recourse: which candidates of a data set survive which changed models."""

from pathlib import Path

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_table
    from cfc.recourse.data import RecourseData
    from cfc.recourse.nets import load_nets
    from cfc.recourse.pools import check_pools
    from cfc.recourse.seeds import SeedPlan
    from cfc.recourse.stages import bases_of, evaluate_stage

    params, unit = params_of(job), unit_of(job)
    bases = bases_of(load_nets(job.input.nets), read_table(job.input.facts))
    bank = {Path(file).stem: load_nets(file) for file in job.input.bank}
    models = {Path(file).stem: read_table(file).to_pylist() for file in job.input.models}
    plan = SeedPlan(unit["profile"], unit["dataset"])
    check_pools(bases, bank, models, load_nets(job.input.ensemble), plan)
    found = evaluate_stage(
        RecourseData.read(job.input.data),
        bases,
        read_table(job.input.requests),
        {Path(file).stem: read_table(file) for file in job.input.candidates},
        bank,
        neighbours=params["config"]["neighbours"],
    )
    for name, table in found.items():
        write_table(table, getattr(job.output, name), provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
