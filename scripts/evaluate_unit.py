"""Entry of rule evaluate_unit: every metric of one unit."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_table
    from cfc.evaluate import EvaluationSettings, evaluate_unit

    unit = unit_of(job)
    table = evaluate_unit(
        read_table(job.input.predictions),
        read_table(job.input.certificates),
        read_table(job.input.labels),
        read_table(job.input.ranks),
        settings=EvaluationSettings(**params_of(job)["config"]),
        unit=(unit["dataset"], unit["model"], unit["seed"]),
    )
    write_table(table, job.output.metrics, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
