# Metrics of each unit, then one rule a table and one a figure, each read from files on disk.


rule evaluate_unit:
    """Compute every metric of one unit, with counts and reasons where it is undefined."""
    input:
        predictions="<results>/train/{dataset}/{model}/seed{seed}.parquet",
        certificates=rules.certify_cases.output.certificates,
        labels=rules.label_cases.output.labels,
        ranks=rules.rank_cases.output.ranks,
    output:
        metrics="<audit>/evaluate/{dataset}/{model}/seed{seed}.parquet",
    log:
        "<logs>/evaluate_unit/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/evaluate_unit/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=10,
    params:
        config=evaluation_settings(),
        code=code("evaluate_unit.py"),
    script:
        "../../scripts/evaluate_unit.py"


METRIC_FILES = unit_files(f"{AUDIT}/evaluate/{UNIT}.parquet")
CERTIFICATE_FILES = unit_files(f"{AUDIT}/certify/{UNIT}.parquet")
TIMING_FILES = (
    unit_files(f"{RESULTS}/train/{UNIT}.timings.json")
    + unit_files(f"{AUDIT}/certify/{UNIT}.timings.json")
    + unit_files(f"{AUDIT}/stress/{UNIT}.timings.json")
)
for analysis in ("search", "sensitivity", "attribution", "exposure", "transfer"):
    if analysis in ANALYSES:
        TIMING_FILES += unit_files(f"{AUDIT}/{analysis}/{UNIT}.timings.json")


rule table_predictive:
    """Paper, Table 1: test AUROC and mean RCMA of each family on each data set."""
    input:
        units=METRIC_FILES,
    output:
        parquet="<audit>/tables/predictive.parquet",
        csv="<audit>/tables/predictive.csv",
        md="<audit>/tables/predictive.md",
        html=report(
            "<audit>/tables/predictive.html",
            caption="../report/predictive.rst",
            category="Tables",
            labels={"table": "predictive (paper, Table 1)"},
        ),
    log:
        "<logs>/build_table/predictive.log",
    benchmark:
        "<benchmarks>/build_table/predictive.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=20,
    params:
        table="predictive",
        config=table_settings(),
        code=table_code("predictive"),
    script:
        "../../scripts/build_table.py"


use rule table_predictive as table_brittle_auroc with:
    output:
        parquet="<audit>/tables/brittle_auroc.parquet",
        csv="<audit>/tables/brittle_auroc.csv",
        md="<audit>/tables/brittle_auroc.md",
        html=report(
            "<audit>/tables/brittle_auroc.html",
            caption="../report/brittle_auroc.rst",
            category="Tables",
            labels={"table": "brittle_auroc (paper, Table 2a)"},
        ),
    log:
        "<logs>/build_table/brittle_auroc.log",
    benchmark:
        "<benchmarks>/build_table/brittle_auroc.jsonl"
    params:
        table="brittle_auroc",
        config=table_settings(),
        code=table_code("brittle_auroc"),


use rule table_predictive as table_brittle_aggregate with:
    output:
        parquet="<audit>/tables/brittle_aggregate.parquet",
        csv="<audit>/tables/brittle_aggregate.csv",
        md="<audit>/tables/brittle_aggregate.md",
        html=report(
            "<audit>/tables/brittle_aggregate.html",
            caption="../report/brittle_aggregate.rst",
            category="Tables",
            labels={"table": "brittle_aggregate (paper, Table 2b)"},
        ),
    log:
        "<logs>/build_table/brittle_aggregate.log",
    benchmark:
        "<benchmarks>/build_table/brittle_aggregate.jsonl"
    params:
        table="brittle_aggregate",
        config=table_settings(),
        code=table_code("brittle_aggregate"),


use rule table_predictive as table_cost with:
    input:
        units=METRIC_FILES,
        timings=TIMING_FILES,
    output:
        parquet="<audit>/tables/cost.parquet",
        csv="<audit>/tables/cost.csv",
        md="<audit>/tables/cost.md",
        html=report(
            "<audit>/tables/cost.html",
            caption="../report/cost.rst",
            category="Tables",
            labels={"table": "cost (paper, Table 3)"},
        ),
    log:
        "<logs>/build_table/cost.log",
    benchmark:
        "<benchmarks>/build_table/cost.jsonl"
    params:
        table="cost",
        config=table_settings(),
        code=table_code("cost"),


use rule table_predictive as table_nominal_vs_stable with:
    output:
        parquet="<audit>/tables/nominal_vs_stable.parquet",
        csv="<audit>/tables/nominal_vs_stable.csv",
        md="<audit>/tables/nominal_vs_stable.md",
        html=report(
            "<audit>/tables/nominal_vs_stable.html",
            caption="../report/nominal_vs_stable.rst",
            category="Tables",
            labels={"table": "nominal_vs_stable (paper, Table 5)"},
        ),
    log:
        "<logs>/build_table/nominal_vs_stable.log",
    benchmark:
        "<benchmarks>/build_table/nominal_vs_stable.jsonl"
    params:
        table="nominal_vs_stable",
        config=table_settings(),
        code=table_code("nominal_vs_stable"),


use rule table_predictive as table_seed_variance with:
    output:
        parquet="<audit>/tables/seed_variance.parquet",
        csv="<audit>/tables/seed_variance.csv",
        md="<audit>/tables/seed_variance.md",
        html=report(
            "<audit>/tables/seed_variance.html",
            caption="../report/seed_variance.rst",
            category="Tables",
            labels={"table": "seed_variance (paper, Table 12)"},
        ),
    log:
        "<logs>/build_table/seed_variance.log",
    benchmark:
        "<benchmarks>/build_table/seed_variance.jsonl"
    params:
        table="seed_variance",
        config=table_settings(),
        code=table_code("seed_variance"),


use rule table_predictive as table_budget with:
    output:
        parquet="<audit>/tables/budget.parquet",
        csv="<audit>/tables/budget.csv",
        md="<audit>/tables/budget.md",
        html=report(
            "<audit>/tables/budget.html",
            caption="../report/budget.rst",
            category="Tables",
            labels={"table": "budget (paper, Table 14)"},
        ),
    log:
        "<logs>/build_table/budget.log",
    benchmark:
        "<benchmarks>/build_table/budget.jsonl"
    params:
        table="budget",
        config=table_settings(),
        code=table_code("budget"),


use rule table_predictive as table_capture_curve with:
    output:
        parquet="<audit>/tables/capture_curve.parquet",
        csv="<audit>/tables/capture_curve.csv",
        md="<audit>/tables/capture_curve.md",
        html="<audit>/tables/capture_curve.html",
    log:
        "<logs>/build_table/capture_curve.log",
    benchmark:
        "<benchmarks>/build_table/capture_curve.jsonl"
    params:
        table="capture_curve",
        config=table_settings(),
        code=table_code("capture_curve"),


use rule table_predictive as table_case_degradation with:
    input:
        units=METRIC_FILES,
        certificates=CERTIFICATE_FILES,
    output:
        parquet="<audit>/tables/case_degradation.parquet",
        csv="<audit>/tables/case_degradation.csv",
        md="<audit>/tables/case_degradation.md",
        html="<audit>/tables/case_degradation.html",
    log:
        "<logs>/build_table/case_degradation.log",
    benchmark:
        "<benchmarks>/build_table/case_degradation.jsonl"
    params:
        table="case_degradation",
        config=table_settings(),
        certificates=certificate_pattern,
        code=table_code("case_degradation"),


rule figure_brittle_ranking:
    """Paper, Figure 4b: brittle-case AUROC of each score, with the spread over units."""
    input:
        table="<audit>/tables/brittle_aggregate.parquet",
    output:
        svg=report(
            "<audit>/figures/brittle_ranking.svg",
            caption="../report/brittle_ranking.rst",
            category="Figures",
            labels={"figure": "brittle_ranking (paper, Figure 4b)"},
        ),
        png="<audit>/figures/brittle_ranking.png",
    log:
        "<logs>/draw_figure/brittle_ranking.log",
    benchmark:
        "<benchmarks>/draw_figure/brittle_ranking.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=10,
    params:
        figure="brittle_ranking",
        config=table_settings(),
        code=figure_code("brittle_ranking"),
    script:
        "../../scripts/draw_figure.py"


use rule figure_brittle_ranking as figure_capture_curve with:
    input:
        table="<audit>/tables/capture_curve.parquet",
    output:
        svg=report(
            "<audit>/figures/capture_curve.svg",
            caption="../report/capture_curve.rst",
            category="Figures",
            labels={"figure": "capture_curve (paper, Appendix Q)"},
        ),
        png="<audit>/figures/capture_curve.png",
    log:
        "<logs>/draw_figure/capture_curve.log",
    benchmark:
        "<benchmarks>/draw_figure/capture_curve.jsonl"
    params:
        figure="capture_curve",
        config=table_settings(),
        code=figure_code("capture_curve"),


use rule figure_brittle_ranking as figure_case_degradation with:
    input:
        table="<audit>/tables/case_degradation.parquet",
    output:
        svg=report(
            "<audit>/figures/case_degradation.svg",
            caption="../report/case_degradation.rst",
            category="Figures",
            labels={"figure": "case_degradation (paper, Figure 3)"},
        ),
        png="<audit>/figures/case_degradation.png",
    log:
        "<logs>/draw_figure/case_degradation.log",
    benchmark:
        "<benchmarks>/draw_figure/case_degradation.jsonl"
    params:
        figure="case_degradation",
        config=table_settings(),
        code=figure_code("case_degradation"),
