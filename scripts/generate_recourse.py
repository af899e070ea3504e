"""Entry of rule generate_recourse: one method's candidates for every request of a data set."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_json, write_table
    from cfc.recourse.data import RecourseData
    from cfc.recourse.methods.registry import get_method
    from cfc.recourse.nets import load_nets
    from cfc.recourse.seeds import SeedPlan
    from cfc.recourse.stages import bases_of, generate_stage

    params, unit = params_of(job), unit_of(job)
    config = params["config"]
    method = get_method(unit["method"], config["class"])
    # a grid in the configuration comes as pairs, in the order that decides ties
    grid = method.GRID if config["grid"] is None else dict(config["grid"])
    table, facts, times = generate_stage(
        method,
        RecourseData.read(job.input.data),
        bases_of(load_nets(job.input.nets), read_table(job.input.facts)),
        read_table(job.input.requests),
        SeedPlan(unit["profile"], unit["dataset"]),
        {**config, "grid": grid},
        load_nets(job.input.ensemble) if method.needs_ensemble else None,
    )
    head = {"dataset": unit["dataset"], "method": unit["method"]}
    write_json({**head, **times}, job.output.timings)
    write_json({**head, **facts}, job.output.facts)
    write_table(table, job.output.candidates, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
