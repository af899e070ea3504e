"""Entry of rule study_unit: components, variants, thresholds and label reliability of one unit."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_metadata, read_table, write_table
    from cfc.evaluate import EvaluationSettings
    from cfc.labels import LabelRule
    from cfc.stages.study import StudySettings, study_unit

    unit, config = unit_of(job), params_of(job)["config"]
    labels = config["labels"]
    rules = {
        name: LabelRule.from_mapping(name, values) for name, values in labels.pop("rules").items()
    }
    settings = StudySettings(
        rules=rules,
        **labels,
        **config["study"],
        evaluation=EvaluationSettings(**config["evaluation"]),
    )
    table = study_unit(
        read_table(job.input.predictions, columns=["split", "label", "predicted", "proba"]),
        read_table(job.input.certificates),
        read_table(job.input.stress),
        read_table(job.input.labels),
        read_table(job.input.ranks),
        read_table(job.input.sensitivity),
        settings,
        clip=read_metadata(job.input.certificates)["clip"],
        unit=(unit["dataset"], unit["model"], unit["seed"]),
    )
    write_table(table, job.output.study, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
