"""Entry of rule evaluate_natural: ranking metrics of one unit under the natural labels."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from dataclasses import replace

    from cfc.artifacts import read_metadata, read_table, write_table
    from cfc.evaluate import EvaluationSettings
    from cfc.stages.natural import RULES, evaluate_natural

    params, unit = params_of(job), unit_of(job)
    table = evaluate_natural(
        read_table(job.input.certificates),
        read_table(job.input.natural),
        read_table(job.input.ranks),
        is_eligible=read_metadata(job.input.natural)["natural"]["is_eligible"],
        thresholds=params["thresholds"],
        settings=replace(EvaluationSettings(**params["config"]), label_rules=RULES),
        unit=(unit["dataset"], unit["model"], unit["seed"]),
    )
    write_table(table, job.output.metrics, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
