"""Entry of rule transfer_cases: stress one unit with values no score was built on."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_metadata, read_table, write_json, write_table
    from cfc.models.registry import load_model
    from cfc.prepared import Prepared
    from cfc.stages.transfer import transfer_unit
    from cfc.transfer import TransferSettings

    params, unit = params_of(job), unit_of(job)
    # the model first: reading a large forest takes twice its size for a moment
    model = load_model(job.input.model, params["model"]["class"])
    prepared = Prepared.read(job.input.matrix, job.input.description, job.input.baselines)
    table, timings = transfer_unit(
        prepared,
        model,
        read_table(job.input.certificates),
        TransferSettings.from_mapping(params["transfer"]),
        clip=read_metadata(job.input.certificates)["clip"],
        seed=unit["seed"],
    )
    write_json({**unit, "stage": "transfer", **timings}, job.output.timings)
    metadata = {**provenance(job), "transfer": params["transfer"]}
    write_table(table, job.output.transfer, metadata)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
