"""Entry of rule label_cases: brittle labels of one unit under every rule."""

from _job import logged, params_of, provenance


def main(job):
    from cfc.artifacts import read_table, write_table
    from cfc.labels import LabelRule
    from cfc.stages.label import label_unit

    config = params_of(job)["config"]
    rules = {
        name: LabelRule.from_mapping(name, values) for name, values in config.pop("rules").items()
    }
    table = label_unit(
        read_table(job.input.certificates), read_table(job.input.stress), rules, **config
    )
    write_table(table, job.output.labels, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
