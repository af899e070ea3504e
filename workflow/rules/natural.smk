# Field unavailability as observed in train: stress, metrics and their table (analysis `natural`).


rule natural_cases:
    """Stress confident audited cases with observed patterns of unavailable fields."""
    input:
        table=rules.acquire_data.output.table,
        matrix=rules.prepare_data.output.matrix,
        description=rules.prepare_data.output.description,
        baselines=rules.prepare_data.output.baselines,
        model="<results>/train/{dataset}/{model}/seed{seed}.model",
        certificates=rules.certify_cases.output.certificates,
    output:
        natural="<audit>/natural/{dataset}/{model}/seed{seed}.parquet",
    log:
        "<logs>/natural_cases/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/natural_cases/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=audit_mem_mb,
        runtime=20,
    params:
        protocol=protocol_settings(),
        entry=dataset_settings,
        natural=settings({"draws": config["natural"]["draws"]}),
        model=train_model_params,
        code=natural_cases_code,
    script:
        "../../scripts/natural_cases.py"


rule evaluate_natural:
    """Compute the ranking metrics of one unit under the labels of natural stress."""
    input:
        natural=rules.natural_cases.output.natural,
        certificates=rules.certify_cases.output.certificates,
        ranks=rules.rank_cases.output.ranks,
    output:
        metrics="<audit>/natural/{dataset}/{model}/seed{seed}.metrics.parquet",
    log:
        "<logs>/evaluate_natural/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/evaluate_natural/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=10,
    params:
        thresholds=natural_thresholds(),
        config=evaluation_settings(),
        code=code("evaluate_natural.py"),
    script:
        "../../scripts/evaluate_natural.py"


use rule table_predictive as table_natural with:
    input:
        units=unit_files(f"{AUDIT}/natural/{UNIT}.metrics.parquet"),
    output:
        parquet="<audit>/tables/natural.parquet",
        csv="<audit>/tables/natural.csv",
        md="<audit>/tables/natural.md",
        html=report(
            "<audit>/tables/natural.html",
            caption="../report/natural.rst",
            category="Tables",
            labels={"table": "natural (paper, Table 9)"},
        ),
    log:
        "<logs>/build_table/natural.log",
    benchmark:
        "<benchmarks>/build_table/natural.jsonl"
    params:
        table="natural",
        config=table_settings(),
        code=table_code("natural"),


use rule figure_brittle_ranking as figure_natural_and_structure with:
    input:
        table="<audit>/tables/brittle_auroc.parquet",
        natural="<audit>/tables/natural.parquet",
    output:
        svg=report(
            "<audit>/figures/natural_and_structure.svg",
            caption="../report/natural_and_structure.rst",
            category="Figures",
            labels={"figure": "natural_and_structure (paper, Figure 2)"},
        ),
        png="<audit>/figures/natural_and_structure.png",
    log:
        "<logs>/draw_figure/natural_and_structure.log",
    benchmark:
        "<benchmarks>/draw_figure/natural_and_structure.jsonl"
    params:
        figure="natural_and_structure",
        config=table_settings(),
        code=figure_code("natural_and_structure"),
