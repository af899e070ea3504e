"""Entry of rule vary_certificates: the same cases under other declared protocols."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_json, write_table
    from cfc.models.registry import load_model
    from cfc.prepared import Prepared
    from cfc.protocol import Protocol
    from cfc.stages.certify import clip_of
    from cfc.stages.sensitivity import vary_unit

    params, unit = params_of(job), unit_of(job)
    # pairs, because canonical JSON would sort the names of a map
    config = {**params["config"], "variants": dict(params["config"]["variants"])}
    protocol = Protocol.from_mapping(params["protocol"])
    model = load_model(job.input.model, params["model"]["class"])
    table, timings = vary_unit(
        Prepared.read(job.input.matrix, job.input.description, job.input.baselines),
        model,
        read_table(job.input.certificates),
        read_table(job.input.predictions, columns=["split", "label", "proba"]),
        protocol,
        config,
        clip=clip_of(model, protocol),
        unit=unit,
    )
    metadata = {
        **provenance(job),
        "protocol": protocol.to_dict(),
        "sensitivity": params["config"],
        "temperature": timings.pop("temperature"),
    }
    write_json({**unit, "stage": "sensitivity", **timings}, job.output.timings)
    write_table(table, job.output.sensitivity, metadata)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
