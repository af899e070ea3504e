"""Entry of rule train_bases: the base models of one data set, and the requests they refuse."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import write_table
    from cfc.recourse.data import RecourseData
    from cfc.recourse.nets import save_nets
    from cfc.recourse.seeds import SeedPlan
    from cfc.recourse.stages import base_stage

    params, unit = params_of(job), unit_of(job)
    data = RecourseData.read(job.input.data)
    plan = SeedPlan(unit["profile"], unit["dataset"])
    nets, facts, requests = base_stage(data, plan, params["config"])
    save_nets(nets, job.output.nets)
    write_table(facts, job.output.facts, provenance(job))
    write_table(requests, job.output.requests, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
