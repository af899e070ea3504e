"""Entry of rule evaluate_transfer: labels and ranking metrics of one unit under transfer stress."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from dataclasses import replace

    from cfc.artifacts import read_table, write_table
    from cfc.evaluate import EvaluationSettings, evaluate_ranking
    from cfc.stages.transfer import transfer_labels
    from cfc.transfer import OPERATORS

    params, unit = params_of(job), unit_of(job)
    certificates = read_table(job.input.certificates)
    labels = transfer_labels(
        certificates, read_table(job.input.transfer), OPERATORS, params["thresholds"]
    )
    metrics = evaluate_ranking(
        certificates,
        labels,
        read_table(job.input.ranks),
        settings=replace(EvaluationSettings(**params["config"]), label_rules=OPERATORS),
        unit=(unit["dataset"], unit["model"], unit["seed"]),
    )
    write_table(labels, job.output.labels, provenance(job))
    write_table(metrics, job.output.metrics, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
