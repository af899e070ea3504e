"""Entry of rule build_page: the interactive page of a run."""

from _job import logged, params_of, provenance


def main(job):
    from cfc.artifacts import read_metadata, read_table, write_text
    from cfc.page.payload import UnitTables, rule_text, run_payload, unit_payload
    from cfc.page.render import render_page
    from cfc.tables.render import from_arrow

    config = params_of(job)["config"]
    labels = config["labels"]
    rules = {name: rule_text(labels["rules"][name], labels) for name in config["rules"]}
    run = run_payload(
        auroc=from_arrow(read_table(job.input.auroc)),
        capture=from_arrow(read_table(job.input.capture)),
        datasets=dict(config["datasets"]),
        models=dict(config["models"]),
        seeds=config["seeds"],
        rules=rules,
    )
    facts = {
        **{name: config[name] for name in ("run", "preset", "cases", "threshold", "protocol")},
        "tau_p": labels["tau_p"],
        "provenance": provenance(job),
    }
    stages = ("certificates", "stressed", "labels", "ranks", "metrics")

    def payload(unit, files):
        dataset, model, seed = unit.split("/")
        about = read_metadata(files[0])
        tables = UnitTables(
            dataset,
            model,
            int(seed),
            **{stage: read_table(file) for stage, file in zip(stages, files, strict=True)},
            group_names=about["groups"]["names"],
            classes=about["classes"],
        )
        return unit_payload(tables, limit=config["cases"], tau_p=labels["tau_p"], rules=list(rules))

    listed = [[f] if isinstance(f := job.input[stage], str) else f for stage in stages]
    of_units = zip(*listed, strict=True)
    page = render_page(
        {**run, **facts},
        (payload(unit, files) for unit, files in zip(run["units"], of_units, strict=True)),
    )
    write_text(page, job.output.page)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
