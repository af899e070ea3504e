# What a run says about the paper: dependence on confidence, running time, paper against ours, and
# the verdict page. Everything here is made for every run, whatever analyses it includes.


rule measure_dependence:
    """Measure what each score of one unit knows beyond the confidence."""
    input:
        certificates=rules.certify_cases.output.certificates,
        labels=rules.label_cases.output.labels,
        ranks=rules.rank_cases.output.ranks,
    output:
        metrics="<audit>/dependence/{dataset}/{model}/seed{seed}.parquet",
    log:
        "<logs>/measure_dependence/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/measure_dependence/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=10,
    params:
        config=evaluation_settings(),
        dependence=settings(config["dependence"]),
        code=code("measure_dependence.py"),
    script:
        "../../scripts/measure_dependence.py"


use rule table_predictive as table_dependence with:
    input:
        units=unit_files(f"{AUDIT}/dependence/{UNIT}.parquet"),
    output:
        parquet="<audit>/tables/dependence.parquet",
        csv="<audit>/tables/dependence.csv",
        md="<audit>/tables/dependence.md",
        html=report(
            "<audit>/tables/dependence.html",
            caption="../report/dependence.rst",
            category="Tables",
            labels={"table": "dependence (ours)"},
        ),
    log:
        "<logs>/build_table/dependence.log",
    benchmark:
        "<benchmarks>/build_table/dependence.jsonl"
    params:
        table="dependence",
        config=table_settings(),
        code=table_code("dependence"),


# every table that says something about the paper; those with wall-clock times do not
STATED_TABLES = [t for t in TABLES if t not in ("cost", "runtime", "paper_vs_ours")]


use rule table_predictive as table_runtime with:
    input:
        units=METRIC_FILES,
        # not read: all these stages must be over before their time is summed
        over=[f"{AUDIT}/tables/{t}.parquet" for t in [*STATED_TABLES, "cost"]],
    output:
        parquet="<audit>/tables/runtime.parquet",
        csv="<audit>/tables/runtime.csv",
        md="<audit>/tables/runtime.md",
        html=report(
            "<audit>/tables/runtime.html",
            caption="../report/runtime.rst",
            category="Tables",
            labels={"table": "runtime (ours)"},
        ),
    log:
        "<logs>/build_table/runtime.log",
    benchmark:
        "<benchmarks>/build_table/runtime.jsonl"
    params:
        table="runtime",
        config=table_settings(),
        benchmarks=f"{RESULTS}/benchmarks",
        code=table_code("runtime"),


use rule table_predictive as table_paper_vs_ours with:
    input:
        units=METRIC_FILES,
        tables=[f"{AUDIT}/tables/{t}.parquet" for t in STATED_TABLES],
        reference=str(ROOT / "config/reference/cfc_paper.csv"),
    output:
        parquet="<audit>/tables/paper_vs_ours.parquet",
        csv="<audit>/tables/paper_vs_ours.csv",
        md="<audit>/tables/paper_vs_ours.md",
        html=report(
            "<audit>/tables/paper_vs_ours.html",
            caption="../report/paper_vs_ours.rst",
            category="Tables",
            labels={"table": "paper_vs_ours"},
        ),
    log:
        "<logs>/build_table/paper_vs_ours.log",
    benchmark:
        "<benchmarks>/build_table/paper_vs_ours.jsonl"
    params:
        table="paper_vs_ours",
        config=table_settings(),
        code=table_code("paper_vs_ours"),


rule write_verdict:
    """Say in plain language what this run shows, from its tables."""
    input:
        tables=[
            f"{AUDIT}/tables/{t}.parquet" for t in [*STATED_TABLES, "paper_vs_ours"]
        ],
    output:
        markdown="<audit>/verdict.md",
        html=report(
            "<audit>/verdict.html",
            caption="../report/verdict.rst",
            category="Verdict",
            labels={"page": "verdict"},
        ),
    log:
        "<logs>/write_verdict.log",
    benchmark:
        "<benchmarks>/write_verdict/all.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=10,
    params:
        config=table_settings(),
        code=code("write_verdict.py"),
    script:
        "../../scripts/write_verdict.py"


use rule figure_brittle_ranking as figure_mitigation with:
    input:
        table="<audit>/tables/predictive.parquet",
    output:
        svg=report(
            "<audit>/figures/mitigation.svg",
            caption="../report/mitigation.rst",
            category="Figures",
            labels={"figure": "mitigation (paper, Figure 4a)"},
        ),
        png="<audit>/figures/mitigation.png",
    log:
        "<logs>/draw_figure/mitigation.log",
    benchmark:
        "<benchmarks>/draw_figure/mitigation.jsonl"
    params:
        figure="mitigation",
        config=table_settings(),
        code=figure_code("mitigation"),


use rule figure_brittle_ranking as figure_paper_vs_ours with:
    input:
        table="<audit>/tables/paper_vs_ours.parquet",
    output:
        svg=report(
            "<audit>/figures/paper_vs_ours.svg",
            caption="../report/paper_vs_ours_figure.rst",
            category="Figures",
            labels={"figure": "paper_vs_ours"},
        ),
        png="<audit>/figures/paper_vs_ours.png",
    log:
        "<logs>/draw_figure/paper_vs_ours.log",
    benchmark:
        "<benchmarks>/draw_figure/paper_vs_ours.jsonl"
    params:
        figure="paper_vs_ours",
        config=table_settings(),
        code=figure_code("paper_vs_ours"),
