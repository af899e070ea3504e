"""Entry of rule attribute_cases: group-SHAP and orders of removal on one unit's cases."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_metadata, read_table, write_json, write_table
    from cfc.models.registry import load_model
    from cfc.prepared import Prepared
    from cfc.protocol import Protocol
    from cfc.stages.attribution import attribute_unit

    params, unit = params_of(job), unit_of(job)
    protocol = Protocol.from_mapping(params["protocol"])
    # the model first: reading a large forest takes twice its size for a moment
    model = load_model(job.input.model, params["model"]["class"])
    prepared = Prepared.read(job.input.matrix, job.input.description, job.input.baselines)
    table, facts, timings = attribute_unit(
        prepared,
        model,
        read_table(job.input.certificates),
        protocol,
        params["attribution"],
        clip=read_metadata(job.input.certificates)["clip"],
        unit=unit,
    )
    write_json({**unit, "stage": "attribution", **timings}, job.output.timings)
    metadata = {**provenance(job), "protocol_hash": protocol.hash, **facts}
    write_table(table, job.output.attribution, metadata)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
