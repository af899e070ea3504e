# Other protocols on the same model and cases, and what labels and thresholds do to the ranking
# (analysis `sensitivity`).


rule vary_certificates:
    """Certify a sample of one unit's confident cases under every declared variant."""
    input:
        matrix=rules.prepare_data.output.matrix,
        description=rules.prepare_data.output.description,
        baselines=rules.prepare_data.output.baselines,
        predictions="<results>/train/{dataset}/{model}/seed{seed}.parquet",
        model="<results>/train/{dataset}/{model}/seed{seed}.model",
        certificates=rules.certify_cases.output.certificates,
    output:
        sensitivity="<audit>/sensitivity/{dataset}/{model}/seed{seed}.parquet",
        timings="<audit>/sensitivity/{dataset}/{model}/seed{seed}.timings.json",
    log:
        "<logs>/vary_certificates/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/vary_certificates/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=audit_mem_mb,
        runtime=20,
    params:
        protocol=protocol_settings(),
        config=sensitivity_settings(),
        model=train_model_params,
        code=vary_certificates_code,
    script:
        "../../scripts/vary_certificates.py"


rule study_unit:
    """Components, variants, thresholds and label reliability of one unit, from files on disk."""
    input:
        predictions="<results>/train/{dataset}/{model}/seed{seed}.parquet",
        certificates=rules.certify_cases.output.certificates,
        stress=rules.stress_cases.output.stress,
        labels=rules.label_cases.output.labels,
        ranks=rules.rank_cases.output.ranks,
        sensitivity=rules.vary_certificates.output.sensitivity,
    output:
        study="<audit>/study/{dataset}/{model}/seed{seed}.parquet",
    log:
        "<logs>/study_unit/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/study_unit/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=data_mem_mb,
        runtime=10,
    params:
        config=study_settings(),
        code=code("study_unit.py"),
    script:
        "../../scripts/study_unit.py"


STUDY_FILES = unit_files(f"{AUDIT}/study/{UNIT}.parquet")


use rule table_predictive as table_ablation with:
    input:
        units=STUDY_FILES,
    output:
        parquet="<audit>/tables/ablation.parquet",
        csv="<audit>/tables/ablation.csv",
        md="<audit>/tables/ablation.md",
        html=report(
            "<audit>/tables/ablation.html",
            caption="../report/ablation.rst",
            category="Tables",
            labels={"table": "ablation (paper, Table 10)"},
        ),
    log:
        "<logs>/build_table/ablation.log",
    benchmark:
        "<benchmarks>/build_table/ablation.jsonl"
    params:
        table="ablation",
        config=table_settings(),
        code=table_code("ablation"),


use rule table_predictive as table_stability with:
    input:
        units=STUDY_FILES,
    output:
        parquet="<audit>/tables/stability.parquet",
        csv="<audit>/tables/stability.csv",
        md="<audit>/tables/stability.md",
        html=report(
            "<audit>/tables/stability.html",
            caption="../report/stability.rst",
            category="Tables",
            labels={"table": "stability (paper, Table 11)"},
        ),
    log:
        "<logs>/build_table/stability.log",
    benchmark:
        "<benchmarks>/build_table/stability.jsonl"
    params:
        table="stability",
        config=table_settings(),
        code=table_code("stability"),


use rule table_predictive as table_baseline_sensitivity with:
    input:
        units=STUDY_FILES,
    output:
        parquet="<audit>/tables/baseline_sensitivity.parquet",
        csv="<audit>/tables/baseline_sensitivity.csv",
        md="<audit>/tables/baseline_sensitivity.md",
        html=report(
            "<audit>/tables/baseline_sensitivity.html",
            caption="../report/baseline_sensitivity.rst",
            category="Tables",
            labels={"table": "baseline_sensitivity (paper, Table 15)"},
        ),
    log:
        "<logs>/build_table/baseline_sensitivity.log",
    benchmark:
        "<benchmarks>/build_table/baseline_sensitivity.jsonl"
    params:
        table="baseline_sensitivity",
        config=table_settings(),
        code=table_code("baseline_sensitivity"),


use rule table_predictive as table_grouping_sensitivity with:
    input:
        units=STUDY_FILES,
    output:
        parquet="<audit>/tables/grouping_sensitivity.parquet",
        csv="<audit>/tables/grouping_sensitivity.csv",
        md="<audit>/tables/grouping_sensitivity.md",
        html=report(
            "<audit>/tables/grouping_sensitivity.html",
            caption="../report/grouping_sensitivity.rst",
            category="Tables",
            labels={"table": "grouping_sensitivity (paper, Algorithm 11)"},
        ),
    log:
        "<logs>/build_table/grouping_sensitivity.log",
    benchmark:
        "<benchmarks>/build_table/grouping_sensitivity.jsonl"
    params:
        table="grouping_sensitivity",
        config=table_settings(),
        code=table_code("grouping_sensitivity"),


use rule table_predictive as table_thresholds with:
    input:
        units=STUDY_FILES,
    output:
        parquet="<audit>/tables/thresholds.parquet",
        csv="<audit>/tables/thresholds.csv",
        md="<audit>/tables/thresholds.md",
        html=report(
            "<audit>/tables/thresholds.html",
            caption="../report/thresholds.rst",
            category="Tables",
            labels={"table": "thresholds (paper, Appendix K and O)"},
        ),
    log:
        "<logs>/build_table/thresholds.log",
    benchmark:
        "<benchmarks>/build_table/thresholds.jsonl"
    params:
        table="thresholds",
        config=table_settings(),
        code=table_code("thresholds"),


use rule table_predictive as table_label_reliability with:
    input:
        units=STUDY_FILES,
    output:
        parquet="<audit>/tables/label_reliability.parquet",
        csv="<audit>/tables/label_reliability.csv",
        md="<audit>/tables/label_reliability.md",
        html=report(
            "<audit>/tables/label_reliability.html",
            caption="../report/label_reliability.rst",
            category="Tables",
            labels={"table": "label_reliability (ours)"},
        ),
    log:
        "<logs>/build_table/label_reliability.log",
    benchmark:
        "<benchmarks>/build_table/label_reliability.jsonl"
    params:
        table="label_reliability",
        config=table_settings(),
        code=table_code("label_reliability"),


use rule figure_brittle_ranking as figure_threshold_sensitivity with:
    input:
        table="<audit>/tables/thresholds.parquet",
    output:
        svg=report(
            "<audit>/figures/threshold_sensitivity.svg",
            caption="../report/threshold_sensitivity.rst",
            category="Figures",
            labels={"figure": "threshold_sensitivity (paper, Figure 5)"},
        ),
        png="<audit>/figures/threshold_sensitivity.png",
    log:
        "<logs>/draw_figure/threshold_sensitivity.log",
    benchmark:
        "<benchmarks>/draw_figure/threshold_sensitivity.jsonl"
    params:
        figure="threshold_sensitivity",
        config=table_settings(),
        code=figure_code("threshold_sensitivity"),
