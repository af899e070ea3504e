"""Entry of rules train_model and train_model_gpu: fit one model, predict every row."""

from _job import logged, params_of, provenance, unit_of


def main(job):
    from cfc.artifacts import write_json, write_table
    from cfc.prepared import Prepared
    from cfc.stages.train import choose_device, train_model

    unit = unit_of(job)
    prepared = Prepared.read(job.input.matrix, job.input.description, job.input.baselines)
    model, predictions, timings = train_model(
        prepared,
        unit["model"],
        params_of(job)["config"],
        seed=unit["seed"],
        threads=job.threads,
        device=choose_device(bool(job.resources.get("gpu"))),
    )
    origin = provenance(job)
    model.save(job.output.model)
    write_json({**origin, "facts": model.facts, "history": model.history}, job.output.training)
    write_json({**unit, "stage": "train", **timings}, job.output.timings)
    write_table(predictions, job.output.predictions, {**origin, "classes": prepared.classes})


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
