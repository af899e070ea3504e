# The interactive page of a run: one HTML file, with all units in it.

PAGE_FILES = [f"{AUDIT}/explore.html"]


def page_settings():
    """Return the settings the page depends on: what it shows and what its words say."""
    registries = {
        "datasets": (DATASETS, "dataset_registry"),
        "models": (MODELS, "model_registry"),
    }
    titles = {
        key: {name: config[registry][name]["title"] for name in names}
        for key, (names, registry) in registries.items()
    }
    return settings(
        {
            "run": config["run"],
            "preset": PRESET,
            "seeds": SEEDS,
            # canonical JSON sorts maps, so the order shown is a list
            **{key: list(map(list, of.items())) for key, of in titles.items()},
            "rules": list(config["labels"]["rules"]),
            "labels": config["labels"],
            "threshold": config["audit"]["threshold"],
            "protocol": json.loads(protocol_settings()),
            **config["page"],
        }
    )


def page_code():
    """Return the hash of the page's code: its modules, template, style and script."""
    from cfc.artifacts import sha256_file
    from cfc.page.render import ASSETS, FOLDER

    return code("build_page.py") + "".join(
        sha256_file(FOLDER / name)[:16] for name in ASSETS
    )


rule build_page:
    """Build the page in which one looks at single cases, rankings and curves."""
    input:
        certificates=CERTIFICATE_FILES,
        stressed=unit_files(f"{AUDIT}/stress/{UNIT}.parquet"),
        labels=unit_files(f"{AUDIT}/label/{UNIT}.parquet"),
        ranks=unit_files(f"{AUDIT}/rank/{UNIT}.parquet"),
        metrics=METRIC_FILES,
        auroc="<audit>/tables/brittle_auroc.parquet",
        capture="<audit>/tables/capture_curve.parquet",
    output:
        page="<audit>/explore.html",
    log:
        "<logs>/build_page/explore.log",
    benchmark:
        "<benchmarks>/build_page/explore.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=20,
    params:
        config=page_settings(),
        code=page_code(),
    script:
        "../../scripts/build_page.py"
