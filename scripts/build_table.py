"""Entry of the table rules: build one table from the metrics of all units."""

from pathlib import Path

from _job import logged, params_of, provenance


def main(job):
    import pandas as pd
    import pyarrow as pa

    from cfc.artifacts import read_json, read_table
    from cfc.evaluate import EvaluationSettings
    from cfc.tables import build_table
    from cfc.tables.base import TableContext
    from cfc.tables.render import table_reader, write_table_files

    params = params_of(job)
    config = params["config"]
    expected = [
        (dataset, model, seed)
        for dataset in config["datasets"]
        for model in config["models"]
        for seed in config["seeds"]
    ]
    named = dict(job.input.items())
    timings = [read_json(file) for file in job.input.get("timings", [])]

    def certificates(unit):
        dataset, model, seed = unit
        path = params["certificates"].format(dataset=dataset, model=model, seed=seed)
        return read_table(path).to_pandas()

    context = TableContext(
        run=config["run"],
        preset=config["preset"],
        timings=pd.DataFrame(timings) if timings else None,
        certificates=certificates if "certificates" in params else None,
        benchmarks=Path(params["benchmarks"]) if "benchmarks" in params else None,
        tables=table_reader(named.get("tables", [])),
        reference=Path(named["reference"]) if "reference" in named else None,
    )
    result = build_table(
        params["table"],
        pa.concat_tables([read_table(file) for file in job.input.units]),
        expected,
        EvaluationSettings(**config["evaluation"]),
        context,
    )
    write_table_files(result, Path(job.output.parquet).with_suffix(""), provenance(job))


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
