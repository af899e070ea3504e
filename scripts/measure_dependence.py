"""Entry of rule measure_dependence: what each score knows beyond the confidence, for one unit."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_table
    from cfc.evaluate import EvaluationSettings
    from cfc.stages.dependence import dependence_unit

    params, unit = params_of(job), unit_of(job)
    table = dependence_unit(
        read_table(job.input.certificates),
        read_table(job.input.labels),
        read_table(job.input.ranks),
        settings=EvaluationSettings(**params["config"]),
        n_strata=params["dependence"]["strata"],
        folds=params["dependence"]["folds"],
        unit=(unit["dataset"], unit["model"], unit["seed"]),
    )
    write_table(table, job.output.metrics, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
