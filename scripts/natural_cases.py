"""Entry of rule natural_cases: observed field unavailability as stress, for one unit."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_table, write_table
    from cfc.data import DatasetSpec, read_dataset
    from cfc.models.registry import load_model
    from cfc.prepared import Prepared
    from cfc.protocol import Protocol
    from cfc.stages.certify import clip_of
    from cfc.stages.natural import natural_unit

    params, unit = params_of(job), unit_of(job)
    protocol = Protocol.from_mapping(params["protocol"])
    model = load_model(job.input.model, params["model"]["class"])
    table, facts = natural_unit(
        read_dataset(job.input.table),
        DatasetSpec.from_mapping(unit["dataset"], params["entry"]),
        Prepared.read(job.input.matrix, job.input.description, job.input.baselines),
        model,
        read_table(job.input.certificates),
        draws=params["natural"]["draws"],
        baseline=protocol.baseline,
        clip=clip_of(model, protocol),
        seed=unit["seed"],
    )
    metadata = {**provenance(job), "protocol_hash": protocol.hash, "natural": facts}
    write_table(table, job.output.natural, metadata)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
