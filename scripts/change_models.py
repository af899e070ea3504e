"""Entry of rule change_models: the changed models of one family on one data set."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_table
    from cfc.recourse.data import RecourseData
    from cfc.recourse.families import get_family
    from cfc.recourse.nets import load_nets, save_nets
    from cfc.recourse.seeds import SeedPlan
    from cfc.recourse.stages import bank_stage, bases_of

    params, unit = params_of(job), unit_of(job)
    family = get_family(unit["family"], params["config"]["class"])
    bases = bases_of(load_nets(job.input.nets), read_table(job.input.facts))
    nets, table = bank_stage(
        family,
        RecourseData.read(job.input.data),
        bases,
        SeedPlan(unit["profile"], unit["dataset"]),
        params["config"],
    )
    save_nets(nets, job.output.nets)
    write_table(table, job.output.models, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
