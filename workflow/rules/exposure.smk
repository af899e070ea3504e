# Value exposure: groups swept over values of train (analysis `exposure`); a score in every ranking.


rule expose_cases:
    """Sweep the groups of one unit's audited cases over values that occur in train."""
    input:
        table=rules.acquire_data.output.table,
        matrix=rules.prepare_data.output.matrix,
        description=rules.prepare_data.output.description,
        baselines=rules.prepare_data.output.baselines,
        transformer=rules.prepare_data.output.transformer,
        model="<results>/train/{dataset}/{model}/seed{seed}.model",
        certificates=rules.certify_cases.output.certificates,
    output:
        exposure="<audit>/exposure/{dataset}/{model}/seed{seed}.parquet",
        timings="<audit>/exposure/{dataset}/{model}/seed{seed}.timings.json",
    log:
        "<logs>/expose_cases/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/expose_cases/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=audit_mem_mb,
        runtime=30,
    params:
        entry=dataset_settings,
        exposure=settings(config["exposure"]),
        model=train_model_params,
        code=expose_cases_code,
    script:
        "../../scripts/expose_cases.py"


use rule table_predictive as table_exposure with:
    output:
        parquet="<audit>/tables/exposure.parquet",
        csv="<audit>/tables/exposure.csv",
        md="<audit>/tables/exposure.md",
        html=report(
            "<audit>/tables/exposure.html",
            caption="../report/exposure.rst",
            category="Tables",
            labels={"table": "exposure"},
        ),
    log:
        "<logs>/build_table/exposure.log",
    benchmark:
        "<benchmarks>/build_table/exposure.jsonl"
    params:
        table="exposure",
        config=table_settings(),
        code=table_code("exposure"),
