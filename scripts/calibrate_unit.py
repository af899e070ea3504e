"""Entry of rule calibrate_unit: temperatures from validation, applied to test cases."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_metadata, read_table, write_table
    from cfc.stages.calibrate import calibrate_unit

    config, unit = params_of(job)["config"], unit_of(job)
    cases, metrics, chosen = calibrate_unit(
        read_table(job.input.predictions),
        read_table(job.input.validation),
        read_table(job.input.certificates),
        etas=config["etas"],
        fragile_share=config["fragile_share"],
        clip=read_metadata(job.input.certificates)["clip"],
        unit=(unit["dataset"], unit["model"], unit["seed"]),
    )
    write_table(cases, job.output.cases, {**provenance(job), "chosen": chosen})
    write_table(metrics, job.output.metrics, provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
