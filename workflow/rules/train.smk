# One model a data set, family and seed. Families that can use a GPU have their own rule, so that a
# profile can give just that rule a partition.


rule train_model:
    """Fit one model family on one split and predict every row."""
    input:
        matrix=rules.prepare_data.output.matrix,
        description=rules.prepare_data.output.description,
        baselines=rules.prepare_data.output.baselines,
    output:
        predictions="<results>/train/{dataset}/{model}/seed{seed}.parquet",
        training="<results>/train/{dataset}/{model}/seed{seed}.json",
        timings="<results>/train/{dataset}/{model}/seed{seed}.timings.json",
        model=directory("<results>/train/{dataset}/{model}/seed{seed}.model"),
    log:
        "<logs>/train_model/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/train_model/{dataset}/{model}/seed{seed}.jsonl"
    wildcard_constraints:
        model=one_of(CPU_MODELS),
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=train_mem_mb,
        runtime=train_runtime,
        gpu=0,
    params:
        config=train_model_params,
        code=train_model_code,
    script:
        "../../scripts/train_model.py"


use rule train_model as train_model_gpu with:
    log:
        "<logs>/train_model_gpu/{dataset}/{model}/seed{seed}.log",
    benchmark:
        "<benchmarks>/train_model_gpu/{dataset}/{model}/seed{seed}.jsonl"
    wildcard_constraints:
        model=one_of(GPU_MODELS),
    resources:
        mem_mb=train_mem_mb,
        runtime=train_runtime,
        gpu=1,
