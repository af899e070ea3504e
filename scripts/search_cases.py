"""Entry of rule search_cases: smallest flipping sets of a unit's confident cases."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_json, write_table
    from cfc.models.registry import load_model
    from cfc.prepared import Prepared
    from cfc.protocol import Protocol
    from cfc.stages.certify import clip_of
    from cfc.stages.search import search_rows, search_unit

    params, unit = params_of(job), unit_of(job)
    protocol = Protocol.from_mapping(params["protocol"])
    model = load_model(job.input.model, params["model"]["class"])
    table, timings = search_unit(
        Prepared.read(job.input.matrix, job.input.description, job.input.baselines),
        model,
        read_table(job.input.certificates),
        protocol,
        params["config"],
        clip=clip_of(model, protocol),
        unit=unit,
    )
    metadata = {**provenance(job), "protocol_hash": protocol.hash, "search": params["config"]}
    metrics = search_rows(table, (unit["dataset"], unit["model"], unit["seed"]))
    write_json({**unit, "stage": "search", **timings}, job.output.timings)
    write_table(metrics, job.output.metrics, metadata)
    write_table(table, job.output.search, metadata)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
