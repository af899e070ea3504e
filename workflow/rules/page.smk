# The interactive page of a run: one HTML file, with all units in it.

PAGE_FILES = [f"{AUDIT}/explore.html"]


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
