"""Entry of rule evaluate_attribution: every score on the attributed cases of one unit."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_table
    from cfc.evaluate import EvaluationSettings
    from cfc.stages.attribution import evaluate_attribution

    unit = unit_of(job)
    table = evaluate_attribution(
        read_table(job.input.certificates),
        read_table(job.input.labels),
        read_table(job.input.ranks),
        read_table(job.input.attribution),
        settings=EvaluationSettings(**params_of(job)["config"]),
        unit=(unit["dataset"], unit["model"], unit["seed"]),
    )
    write_table(table, job.output.metrics, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
