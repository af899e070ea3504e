"""Entry of rule certify_cases: certify the audited cases of one unit."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_json, write_table
    from cfc.models.registry import load_model
    from cfc.prepared import Prepared, groups_to_json
    from cfc.protocol import Protocol
    from cfc.stages.certify import audit_unit, clip_of

    params, unit = params_of(job), unit_of(job)
    protocol = Protocol.from_mapping(params["protocol"])
    # the model first: reading a large forest takes twice its size for a moment
    model = load_model(job.input.model, params["model"]["class"])
    prepared = Prepared.read(job.input.matrix, job.input.description, job.input.baselines)
    table, timings = audit_unit(
        prepared, model, read_table(job.input.predictions), protocol, params["audit"], unit=unit
    )
    metadata = {
        **provenance(job),
        "protocol": protocol.to_dict(),
        "protocol_hash": protocol.hash,
        "clip": clip_of(model, protocol),
        "groups": {"grouping": prepared.grouping, **groups_to_json(prepared.groups)},
        "classes": prepared.classes,
        "baseline": prepared.baseline(protocol.baseline).tolist(),
    }
    write_json({**unit, "stage": "certify", **timings}, job.output.timings)
    write_table(table, job.output.certificates, metadata)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
