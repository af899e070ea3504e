# From a public source to one transformed matrix a seed.


rule acquire_data:
    """Get a data set once; the only step that may use the network."""
    input:
        file=local_file,
    output:
        table="<data>/{dataset}.parquet",
        facts="<data>/{dataset}.json",
    log:
        "<logs>/acquire_data/{dataset}.log",
    benchmark:
        "<benchmarks>/acquire_data/{dataset}.jsonl"
    localrule: True
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=data_mem_mb,
        runtime=60,
    params:
        config=acquire_data_params,
        openml=settings(config["openml"]),
        code=code("acquire_data.py"),
    script:
        "../../scripts/acquire_data.py"


rule split_rows:
    """Assign rows to train, validation and test under one seed."""
    input:
        table=rules.acquire_data.output.table,
    output:
        split="<results>/split/{dataset}/seed{seed}.parquet",
    log:
        "<logs>/split_rows/{dataset}/seed{seed}.log",
    benchmark:
        "<benchmarks>/split_rows/{dataset}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=data_mem_mb,
        runtime=10,
    params:
        entry=dataset_settings,
        config=settings(config["split"]),
        code=code("split_rows.py"),
    script:
        "../../scripts/split_rows.py"


rule prepare_data:
    """Fit the preprocessing on train; write matrix, groups, baselines and a report."""
    input:
        table=rules.acquire_data.output.table,
        split=rules.split_rows.output.split,
    output:
        matrix="<results>/preprocess/{dataset}/seed{seed}.parquet",
        description="<results>/preprocess/{dataset}/seed{seed}.json",
        baselines="<results>/preprocess/{dataset}/seed{seed}.baselines.parquet",
        transformer="<results>/preprocess/{dataset}/seed{seed}.skops",
    log:
        "<logs>/prepare_data/{dataset}/seed{seed}.log",
    benchmark:
        "<benchmarks>/prepare_data/{dataset}/seed{seed}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=data_mem_mb,
        runtime=20,
    params:
        config=prepare_data_params,
        code=code("prepare_data.py"),
    script:
        "../../scripts/prepare_data.py"
