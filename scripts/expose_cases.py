"""Entry of rule expose_cases: value exposure of one unit's audited cases."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import read_metadata, read_table, write_json, write_table
    from cfc.data import DatasetSpec, read_dataset
    from cfc.models.registry import load_model
    from cfc.prepared import Prepared
    from cfc.preprocess import Preprocessor
    from cfc.stages.exposure import expose_unit, unit_grid

    params, unit = params_of(job), unit_of(job)
    spec = DatasetSpec.from_mapping(unit["dataset"], params["entry"])
    # the model first: reading a large forest takes twice its size for a moment
    model = load_model(job.input.model, params["model"]["class"])
    prepared = Prepared.read(job.input.matrix, job.input.description, job.input.baselines)
    grid, facts = unit_grid(
        prepared,
        Preprocessor.load(job.input.transformer, spec.fields),
        read_dataset(job.input.table),
        params["exposure"]["points"],
        unit["seed"],
    )
    table, timings = expose_unit(
        prepared,
        model,
        read_table(job.input.certificates),
        grid,
        clip=read_metadata(job.input.certificates)["clip"],
        unit=unit,
    )
    write_json({**unit, "stage": "exposure", **timings}, job.output.timings)
    metadata = {**provenance(job), "exposure": params["exposure"], **facts}
    write_table(table, job.output.exposure, metadata)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
