# The recourse benchmark: data, base models, changed models, candidates, survival, tables, figures.
# Candidates are made from the base models alone; only evaluate_recourse sees the changed ones.


rule prepare_recourse:
    """Clean, split and standardise one data set for recourse."""
    input:
        table=rules.acquire_data.output.table,
    output:
        data="<results>/recourse/{profile}/data/{dataset}.parquet",
    log:
        "<logs>/prepare_recourse/{profile}/{dataset}.log",
    benchmark:
        "<benchmarks>/prepare_recourse/{profile}/{dataset}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=10,
    params:
        entry=dataset_settings,
        config=prepare_recourse_config,
        code=code("prepare_recourse.py"),
    script:
        "../../scripts/prepare_recourse.py"


rule train_bases:
    """Train the base models of one data set and draw the requests they refuse."""
    input:
        data=rules.prepare_recourse.output.data,
    output:
        nets="<results>/recourse/{profile}/bases/{dataset}.safetensors",
        facts="<results>/recourse/{profile}/bases/{dataset}.parquet",
        requests="<results>/recourse/{profile}/bases/{dataset}.requests.parquet",
    log:
        "<logs>/train_bases/{profile}/{dataset}.log",
    benchmark:
        "<benchmarks>/train_bases/{profile}/{dataset}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=15,
    params:
        config=train_bases_config(),
        code=code("train_bases.py"),
    script:
        "../../scripts/train_bases.py"


rule change_models:
    """Make the changed models of one family for every base model of a data set."""
    input:
        data=rules.prepare_recourse.output.data,
        nets=rules.train_bases.output.nets,
        facts=rules.train_bases.output.facts,
    output:
        nets="<results>/recourse/{profile}/bank/{dataset}/{family}.safetensors",
        models="<results>/recourse/{profile}/bank/{dataset}/{family}.parquet",
    log:
        "<logs>/change_models/{profile}/{dataset}/{family}.log",
    benchmark:
        "<benchmarks>/change_models/{profile}/{dataset}/{family}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=60,
    params:
        config=change_models_config,
        code=change_models_code,
    script:
        "../../scripts/change_models.py"


rule train_ensemble:
    """Train the bootstrap networks BetaRCE votes with; no evaluation uses them."""
    input:
        data=rules.prepare_recourse.output.data,
        nets=rules.train_bases.output.nets,
        facts=rules.train_bases.output.facts,
    output:
        nets="<results>/recourse/{profile}/ensemble/{dataset}.safetensors",
    log:
        "<logs>/train_ensemble/{profile}/{dataset}.log",
    benchmark:
        "<benchmarks>/train_ensemble/{profile}/{dataset}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=60,
    params:
        config=train_ensemble_config(),
        code=code("train_ensemble.py"),
    script:
        "../../scripts/train_ensemble.py"


rule generate_recourse:
    """Ask one method for a candidate of every request of a data set."""
    input:
        data=rules.prepare_recourse.output.data,
        nets=rules.train_bases.output.nets,
        facts=rules.train_bases.output.facts,
        requests=rules.train_bases.output.requests,
        ensemble=rules.train_ensemble.output.nets,
    output:
        candidates="<results>/recourse/{profile}/candidates/{dataset}/{method}.parquet",
        facts="<results>/recourse/{profile}/candidates/{dataset}/{method}.facts.json",
        timings="<results>/recourse/{profile}/candidates/{dataset}/{method}.timings.json",
    log:
        "<logs>/generate_recourse/{profile}/{dataset}/{method}.log",
    benchmark:
        "<benchmarks>/generate_recourse/{profile}/{dataset}/{method}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=data_mem_mb,
        runtime=generate_recourse_runtime,
    params:
        config=generate_recourse_config,
        code=generate_recourse_code,
    script:
        "../../scripts/generate_recourse.py"


rule evaluate_recourse:
    """Ask every changed model of a data set about every method's candidates."""
    input:
        data=rules.prepare_recourse.output.data,
        nets=rules.train_bases.output.nets,
        facts=rules.train_bases.output.facts,
        requests=rules.train_bases.output.requests,
        candidates=candidate_files,
        bank=bank_networks,
        models=bank_models,
        ensemble=rules.train_ensemble.output.nets,
    output:
        candidates="<results>/recourse/{profile}/evaluation/{dataset}.candidates.parquet",
        survival="<results>/recourse/{profile}/evaluation/{dataset}.survival.parquet",
        models="<results>/recourse/{profile}/evaluation/{dataset}.models.parquet",
    log:
        "<logs>/evaluate_recourse/{profile}/{dataset}.log",
    benchmark:
        "<benchmarks>/evaluate_recourse/{profile}/{dataset}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=data_mem_mb,
        runtime=30,
    params:
        config=settings({"neighbours": RECOURSE["neighbours"]}),
        code=code("evaluate_recourse.py"),
    script:
        "../../scripts/evaluate_recourse.py"


rule certify_requests:
    """Certify every request against its base model and search its smallest flipping set."""
    input:
        data=rules.prepare_recourse.output.data,
        nets=rules.train_bases.output.nets,
        facts=rules.train_bases.output.facts,
        requests=rules.train_bases.output.requests,
    output:
        certificates="<results>/recourse/{profile}/certificates/{dataset}.parquet",
    log:
        "<logs>/certify_requests/{profile}/{dataset}.log",
    benchmark:
        "<benchmarks>/certify_requests/{profile}/{dataset}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=data_mem_mb,
        runtime=60,
    params:
        entry=dataset_settings,
        protocol=protocol_settings(),
        config=settings(RECOURSE["certificates"]),
        code=code("certify_requests.py"),
    script:
        "../../scripts/certify_requests.py"


rule audit_apas:
    """Hold a sample of APΔS' candidates against an exact solver."""
    input:
        data=rules.prepare_recourse.output.data,
        nets=rules.train_bases.output.nets,
        facts=rules.train_bases.output.facts,
        requests=rules.train_bases.output.requests,
        candidates="<results>/recourse/{profile}/candidates/{dataset}/apas.parquet",
    output:
        audit="<results>/recourse/{profile}/audit/{dataset}.parquet",
    log:
        "<logs>/audit_apas/{profile}/{dataset}.log",
    benchmark:
        "<benchmarks>/audit_apas/{profile}/{dataset}.jsonl"
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=data_mem_mb,
        runtime=60,
    params:
        config=settings(RECOURSE["apas_audit"]),
        code=code("audit_apas.py"),
    script:
        "../../scripts/audit_apas.py"


rule build_recourse_table:
    """Build one table of one profile from the finished stages."""
    input:
        stages=recourse_table_inputs,
        reference=REFERENCE_NUMBERS,
    output:
        parquet="<results>/recourse/{profile}/tables/{table}.parquet",
        csv="<results>/recourse/{profile}/tables/{table}.csv",
        md="<results>/recourse/{profile}/tables/{table}.md",
        html=report(
            "<results>/recourse/{profile}/tables/{table}.html",
            caption="../report/recourse_table.rst",
            category="Recourse",
            subcategory="{profile}",
            labels={"table": "{table}"},
        ),
    log:
        "<logs>/build_recourse_table/{profile}/{table}.log",
    benchmark:
        "<benchmarks>/build_recourse_table/{profile}/{table}.jsonl"
    wildcard_constraints:
        table=one_of(list(RECOURSE_NEEDS)),
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=20,
    params:
        config=recourse_table_config(),
        code=recourse_table_code,
    script:
        "../../scripts/build_recourse_table.py"


rule draw_recourse_figure:
    """Draw one figure of one profile from its table."""
    input:
        table=recourse_figure_table,
    output:
        svg=report(
            "<results>/recourse/{profile}/figures/{figure}.svg",
            caption="../report/recourse_figure.rst",
            category="Recourse",
            subcategory="{profile}",
            labels={"figure": "{figure}"},
        ),
        png="<results>/recourse/{profile}/figures/{figure}.png",
    log:
        "<logs>/draw_recourse_figure/{profile}/{figure}.log",
    benchmark:
        "<benchmarks>/draw_recourse_figure/{profile}/{figure}.jsonl"
    wildcard_constraints:
        figure=one_of(list(RECOURSE_FIGURES)),
    conda:
        "../../envs/environment.yaml"
    threads: 1
    resources:
        mem_mb=small_mem_mb,
        runtime=10,
    params:
        config=recourse_table_config(),
        code=recourse_figure_code,
    script:
        "../../scripts/draw_recourse_figure.py"


rule recourse:
    """The whole recourse benchmark: every profile of the configuration."""
    input:
        recourse_outputs(),
    localrule: True
