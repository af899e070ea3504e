"""Entry of rule certify_valid: certify a uniform sample of validation rows of one unit."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_json, write_table
    from cfc.models.registry import load_model
    from cfc.prepared import Prepared
    from cfc.protocol import Protocol
    from cfc.stages.certify import audit_unit, clip_of

    params, unit = params_of(job), unit_of(job)
    protocol = Protocol.from_mapping(params["protocol"])
    model = load_model(job.input.model, params["model"]["class"])
    prepared = Prepared.read(job.input.matrix, job.input.description, job.input.baselines)
    table, timings = audit_unit(
        prepared,
        model,
        read_table(job.input.predictions),
        protocol,
        params["audit"],
        unit=unit,
        split="valid",
    )
    metadata = {
        **provenance(job),
        "protocol": protocol.to_dict(),
        "protocol_hash": protocol.hash,
        "clip": clip_of(model, protocol),
    }
    write_json({**unit, "stage": "certify_valid", **timings}, job.output.timings)
    write_table(table, job.output.certificates, metadata)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
