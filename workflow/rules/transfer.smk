# Stress with values no score was built on, its labels and metrics (analysis `transfer`).


rule transfer_cases:
    """Stress the confident audited cases of one unit with values no score was built on."""
    input:
        matrix=rules.prepare_data.output.matrix,
        description=rules.prepare_data.output.description,
        baselines=rules.prepare_data.output.baselines,
        model="<results>/train/{dataset}/{model}/seed{seed}.model",
        certificates=rules.certify_cases.output.certificates,
    output:
        transfer="<audit>/transfer/{dataset}/{model}/seed{seed}.parquet",
        timings="<audit>/transfer/{dataset}/{model}/seed{seed}.timings.json",
    log:
        "<logs>/transfer_cases/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/transfer_cases/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=audit_mem_mb,
        runtime=30,
    params:
        transfer=settings(config["transfer"]),
        model=train_model_params,
        code=transfer_cases_code,
    script:
        "../../scripts/transfer_cases.py"


rule evaluate_transfer:
    """Label one unit's cases under the transfer stress and compute the ranking metrics."""
    input:
        transfer=rules.transfer_cases.output.transfer,
        certificates=rules.certify_cases.output.certificates,
        ranks=rules.rank_cases.output.ranks,
    output:
        labels="<audit>/transfer/{dataset}/{model}/seed{seed}.labels.parquet",
        metrics="<audit>/transfer/{dataset}/{model}/seed{seed}.metrics.parquet",
    log:
        "<logs>/evaluate_transfer/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/evaluate_transfer/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=10,
    params:
        thresholds=transfer_thresholds(),
        config=evaluation_settings(),
        code=code("evaluate_transfer.py"),
    script:
        "../../scripts/evaluate_transfer.py"


use rule table_predictive as table_transfer with:
    input:
        units=unit_files(f"{AUDIT}/transfer/{UNIT}.metrics.parquet"),
    output:
        parquet="<audit>/tables/transfer.parquet",
        csv="<audit>/tables/transfer.csv",
        md="<audit>/tables/transfer.md",
        html=report(
            "<audit>/tables/transfer.html",
            caption="../report/transfer.rst",
            category="Tables",
            labels={"table": "transfer"},
        ),
    log:
        "<logs>/build_table/transfer.log",
    benchmark:
        "<benchmarks>/build_table/transfer.jsonl"
    params:
        table="transfer",
        config=table_settings(),
        code=table_code("transfer"),
