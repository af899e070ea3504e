"""Entry of rule acquire_data: get one data set, check it, store it."""

from _job import logged, params_of, unit_of


def main(job):
    from cfc.data import DatasetSpec, acquire

    params = params_of(job)
    config, openml = params["config"], params["openml"]
    spec = DatasetSpec.from_mapping(unit_of(job)["dataset"], config["entry"])
    acquire(
        spec,
        config["data_dir"],
        job.output.table,
        job.output.facts,
        openml_server=openml["server"],
        timeout_seconds=openml["timeout_seconds"],
        attempts=openml["retries"] + 1,
    )


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
