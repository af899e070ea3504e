"""Entry of rule stress_cases: held-out stress of one unit."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_json, write_table
    from cfc.models.registry import load_model
    from cfc.prepared import Prepared
    from cfc.protocol import Protocol
    from cfc.stages.certify import clip_of
    from cfc.stages.stress import stress_unit
    from cfc.stress import StressSettings

    params, unit = params_of(job), unit_of(job)
    protocol = Protocol.from_mapping(params["protocol"])
    model = load_model(job.input.model, params["model"]["class"])
    table, timings = stress_unit(
        Prepared.read(job.input.matrix, job.input.description, job.input.baselines),
        model,
        read_table(job.input.certificates),
        StressSettings.from_mapping(params["stress"]),
        baseline=protocol.baseline,
        clip=clip_of(model, protocol),
        seed=unit["seed"],
    )
    write_json({**unit, "stage": "stress", **timings}, job.output.timings)
    metadata = {**provenance(job), "protocol_hash": protocol.hash, "stress": params["stress"]}
    write_table(table, job.output.stress, metadata)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
