# Smallest flipping sets beside the removal path of a certificate (analysis `search`).


rule search_cases:
    """Search the smallest flipping sets of a sample of one unit's confident cases."""
    input:
        matrix=rules.prepare_data.output.matrix,
        description=rules.prepare_data.output.description,
        baselines=rules.prepare_data.output.baselines,
        model="<results>/train/{dataset}/{model}/seed{seed}.model",
        certificates=rules.certify_cases.output.certificates,
    output:
        search="<audit>/search/{dataset}/{model}/seed{seed}.parquet",
        metrics="<audit>/search/{dataset}/{model}/seed{seed}.metrics.parquet",
        timings="<audit>/search/{dataset}/{model}/seed{seed}.timings.json",
    log:
        "<logs>/search_cases/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/search_cases/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=audit_mem_mb,
        runtime=20,
    params:
        protocol=protocol_settings(),
        config=settings(config["search"]),
        model=train_model_params,
        code=search_cases_code,
    script:
        "../../scripts/search_cases.py"


use rule table_predictive as table_search_gap with:
    input:
        units=unit_files(f"{AUDIT}/search/{UNIT}.metrics.parquet"),
    output:
        parquet="<audit>/tables/search_gap.parquet",
        csv="<audit>/tables/search_gap.csv",
        md="<audit>/tables/search_gap.md",
        html=report(
            "<audit>/tables/search_gap.html",
            caption="../report/search_gap.rst",
            category="Tables",
            labels={"table": "search_gap (paper, Table 7)"},
        ),
    log:
        "<logs>/build_table/search_gap.log",
    benchmark:
        "<benchmarks>/build_table/search_gap.jsonl"
    params:
        table="search_gap",
        config=table_settings(),
        code=table_code("search_gap"),
