"""Entry of rule train_ensemble: the bootstrap networks BetaRCE votes with."""

from _job import logged, params_of, unit_of


def main(job):
    from cfc.artifacts import read_table
    from cfc.recourse.data import RecourseData
    from cfc.recourse.nets import load_nets, save_nets
    from cfc.recourse.seeds import SeedPlan
    from cfc.recourse.stages import bases_of, ensemble_stage

    params, unit = params_of(job), unit_of(job)
    bases = bases_of(load_nets(job.input.nets), read_table(job.input.facts))
    plan = SeedPlan(unit["profile"], unit["dataset"])
    data = RecourseData.read(job.input.data)
    save_nets(ensemble_stage(data, bases, plan, params["config"]), job.output.nets)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
