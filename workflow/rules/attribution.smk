# Group-SHAP and other orders of removal on a sample of cases (analysis `attribution`).


rule attribute_cases:
    """Attribute the predictions of a sample of one unit's confident audited cases to groups."""
    input:
        matrix=rules.prepare_data.output.matrix,
        description=rules.prepare_data.output.description,
        baselines=rules.prepare_data.output.baselines,
        model="<results>/train/{dataset}/{model}/seed{seed}.model",
        certificates=rules.certify_cases.output.certificates,
    output:
        attribution="<audit>/attribution/{dataset}/{model}/seed{seed}.parquet",
        timings="<audit>/attribution/{dataset}/{model}/seed{seed}.timings.json",
    log:
        "<logs>/attribute_cases/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/attribute_cases/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=audit_mem_mb,
        runtime=30,
    params:
        protocol=protocol_settings(),
        attribution=settings(config["attribution"]),
        model=train_model_params,
        code=attribute_cases_code,
    script:
        "../../scripts/attribute_cases.py"


rule evaluate_attribution:
    """Compute the ranking metrics of every score on the attributed cases of one unit."""
    input:
        certificates=rules.certify_cases.output.certificates,
        labels=rules.label_cases.output.labels,
        ranks=rules.rank_cases.output.ranks,
        attribution=rules.attribute_cases.output.attribution,
    output:
        metrics="<audit>/attribution/{dataset}/{model}/seed{seed}.metrics.parquet",
    log:
        "<logs>/evaluate_attribution/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/evaluate_attribution/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=10,
    params:
        config=evaluation_settings(),
        code=code("evaluate_attribution.py"),
    script:
        "../../scripts/evaluate_attribution.py"


use rule table_predictive as table_attribution with:
    input:
        units=unit_files(f"{AUDIT}/attribution/{UNIT}.metrics.parquet"),
    output:
        parquet="<audit>/tables/attribution.parquet",
        csv="<audit>/tables/attribution.csv",
        md="<audit>/tables/attribution.md",
        html=report(
            "<audit>/tables/attribution.html",
            caption="../report/attribution.rst",
            category="Tables",
            labels={"table": "attribution (paper, Table 16)"},
        ),
    log:
        "<logs>/build_table/attribution.log",
    benchmark:
        "<benchmarks>/build_table/attribution.jsonl"
    params:
        table="attribution",
        config=table_settings(),
        code=table_code("attribution"),
