# The audit of one unit: certificates, held-out stress, labels and ranking scores.


rule certify_cases:
    """Certify the audited test cases of one unit."""
    input:
        matrix=rules.prepare_data.output.matrix,
        description=rules.prepare_data.output.description,
        baselines=rules.prepare_data.output.baselines,
        predictions="<results>/train/{dataset}/{model}/seed{seed}.parquet",
        model="<results>/train/{dataset}/{model}/seed{seed}.model",
    output:
        certificates="<audit>/certify/{dataset}/{model}/seed{seed}.parquet",
        timings="<audit>/certify/{dataset}/{model}/seed{seed}.timings.json",
    log:
        "<logs>/certify_cases/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/certify_cases/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=audit_mem_mb,
        runtime=20,
    params:
        protocol=protocol_settings(),
        audit=settings(config["audit"]),
        model=train_model_params,
        code=certify_cases_code,
    script:
        "../../scripts/certify_cases.py"


rule stress_cases:
    """Run the held-out stress on the confident audited cases of one unit."""
    input:
        matrix=rules.prepare_data.output.matrix,
        description=rules.prepare_data.output.description,
        baselines=rules.prepare_data.output.baselines,
        model="<results>/train/{dataset}/{model}/seed{seed}.model",
        certificates=rules.certify_cases.output.certificates,
    output:
        stress="<audit>/stress/{dataset}/{model}/seed{seed}.parquet",
        timings="<audit>/stress/{dataset}/{model}/seed{seed}.timings.json",
    log:
        "<logs>/stress_cases/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/stress_cases/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=audit_mem_mb,
        runtime=30,
    params:
        protocol=protocol_settings(),
        stress=settings(config["stress"]),
        model=train_model_params,
        code=stress_cases_code,
    script:
        "../../scripts/stress_cases.py"


rule label_cases:
    """Label the audited cases of one unit under every rule."""
    input:
        certificates=rules.certify_cases.output.certificates,
        stress=rules.stress_cases.output.stress,
    output:
        labels="<audit>/label/{dataset}/{model}/seed{seed}.parquet",
    log:
        "<logs>/label_cases/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/label_cases/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=10,
    params:
        config=settings(config["labels"]),
        code=code("label_cases.py"),
    script:
        "../../scripts/label_cases.py"


rule rank_cases:
    """Compute every ranking score of one unit's audited cases, in both signs."""
    input:
        unpack(optional_scores),
        certificates=rules.certify_cases.output.certificates,
    output:
        ranks="<audit>/rank/{dataset}/{model}/seed{seed}.parquet",
    log:
        "<logs>/rank_cases/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/rank_cases/{dataset}/{model}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=10,
    params:
        code=code("rank_cases.py"),
    script:
        "../../scripts/rank_cases.py"
