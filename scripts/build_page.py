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
    stages = ("certificates", "stressed", "labels", "ranks", "metrics")
    listed = [[f] if isinstance(f := job.input[stage], str) else f for stage in stages]
    about = [read_metadata(file) for file in listed[0]]
    keys = [f"{a['dataset']}/{a['model']}/{a['seed']}" for a in about]
    run = run_payload(
        units=keys,
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

    def payload(about, files):
        tables = UnitTables(
            about["dataset"],
            about["model"],
            about["seed"],
            **{stage: read_table(file) for stage, file in zip(stages, files, strict=True)},
            group_names=about["groups"]["names"],
            classes=about["classes"],
        )
        return unit_payload(tables, limit=config["cases"], tau_p=labels["tau_p"], rules=list(rules))

    of_units = zip(about, zip(*listed, strict=True), strict=True)
    page = render_page({**run, **facts}, (payload(fact, files) for fact, files in of_units))
    write_text(page, job.output.page)


if __name__ == "__main__":
    with logged(snakemake):  # noqa: F821
        main(snakemake)  # noqa: F821
