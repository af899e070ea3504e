# Temperatures fitted on validation: certificates of validation rows, correction, table and figure
# (analysis `calibration`).


rule certify_valid:
    """Certify a uniform sample of validation rows of one unit."""
    input:
        matrix=rules.prepare_data.output.matrix,
        description=rules.prepare_data.output.description,
        baselines=rules.prepare_data.output.baselines,
        predictions="<results>/train/{dataset}/{model}/seed{seed}.parquet",
        model="<results>/train/{dataset}/{model}/seed{seed}.model",
    output:
        certificates="<audit>/certify_valid/{dataset}/{model}/seed{seed}.parquet",
        timings="<audit>/certify_valid/{dataset}/{model}/seed{seed}.timings.json",
    log:
        "<logs>/certify_valid/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/certify_valid/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=audit_mem_mb,
        runtime=20,
    params:
        protocol=protocol_settings(),
        audit=settings(
            {
                "uniform": config["calibration"]["valid_cases"],
                "confident": 0,
                "threshold": config["audit"]["threshold"],
            }
        ),
        model=train_model_params,
        code=certify_valid_code,
    script:
        "../../scripts/certify_valid.py"


rule calibrate_unit:
    """Fit the temperatures of one unit on validation and correct its test cases."""
    input:
        predictions="<results>/train/{dataset}/{model}/seed{seed}.parquet",
        validation=rules.certify_valid.output.certificates,
        certificates=rules.certify_cases.output.certificates,
    output:
        cases="<audit>/calibration/{dataset}/{model}/seed{seed}.parquet",
        metrics="<audit>/calibration/{dataset}/{model}/seed{seed}.metrics.parquet",
    log:
        "<logs>/calibrate_unit/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/calibrate_unit/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=data_mem_mb,
        runtime=10,
    params:
        config=settings(
            {key: config["calibration"][key] for key in ("etas", "fragile_share")}
        ),
        code=code("calibrate_unit.py"),
    script:
        "../../scripts/calibrate_unit.py"


use rule table_predictive as table_calibration with:
    input:
        units=unit_files(f"{AUDIT}/calibration/{UNIT}.metrics.parquet"),
    output:
        parquet="<audit>/tables/calibration.parquet",
        csv="<audit>/tables/calibration.csv",
        md="<audit>/tables/calibration.md",
        html=report(
            "<audit>/tables/calibration.html",
            caption="../report/calibration.rst",
            category="Tables",
            labels={"table": "calibration (paper, Table 17)"},
        ),
    log:
        "<logs>/build_table/calibration.log",
    benchmark:
        "<benchmarks>/build_table/calibration.jsonl"
    params:
        table="calibration",
        config=table_settings(),
        code=table_code("calibration"),


use rule figure_brittle_ranking as figure_calibration_curve with:
    input:
        table="<audit>/tables/calibration.parquet",
    output:
        svg=report(
            "<audit>/figures/calibration_curve.svg",
            caption="../report/calibration_curve.rst",
            category="Figures",
            labels={"figure": "calibration_curve"},
        ),
        png="<audit>/figures/calibration_curve.png",
    log:
        "<logs>/draw_figure/calibration_curve.log",
    benchmark:
        "<benchmarks>/draw_figure/calibration_curve.jsonl"
    params:
        figure="calibration_curve",
        config=table_settings(),
        code=figure_code("calibration_curve"),
