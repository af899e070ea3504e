# Configuration check, paths, grid, wildcard constraints and the functions rules use. No rules.

import json
from pathlib import Path

import yaml

from cfc.artifacts import canonical_json
from cfc.config import check_config, load_schema
from cfc.data.registry import portable_entry
from cfc.errors import ConfigError, nearest
from cfc.models.registry import MODULE_OF, own_file
from cfc.provenance import code_hash
from snakemake.exceptions import WorkflowError

ROOT = Path(workflow.basedir)


def checked_config():
    """Return the configuration, or stop with every problem in it."""
    schema = load_schema(ROOT / "workflow/schemas")
    # `--config seeds=1` and the like arrive as single values
    for key in ("datasets", "models", "seeds"):
        if isinstance(config.get(key), (str, int)):
            config[key] = [config[key]]
    # `--config seeds=[0,1] partial=true`: Snakemake reads members of a list, and true, as text
    if config.get("partial") in ("true", "false"):
        config["partial"] = config["partial"] == "true"
    if isinstance(config.get("seeds"), list):
        config["seeds"] = [
            int(s) if isinstance(s, str) and s.isdecimal() else s
            for s in config["seeds"]
        ]
    try:
        check_config(config, schema)
    except ConfigError as error:
        raise WorkflowError(str(error)) from None
    return config


checked_config()

DATASETS, MODELS, SEEDS = config["datasets"], config["models"], config["seeds"]
PRESET = config["preset"]
# one folder for each kind of source, so that switching between them overwrites nothing
DATA = "data/openml" if config["data_dir"] is None else "data/local"
RESULTS = f"results/{config['run']}"
# what depends on the protocol; other presets share the data and the models of the run
AUDIT = RESULTS if PRESET == "paper" else f"{RESULTS}/{PRESET}"
REGISTERED = list(config["dataset_registry"]), list(config["model_registry"])
GPU_MODELS = [m for m, entry in config["model_registry"].items() if entry.get("gpu")]
CPU_MODELS = [m for m in config["model_registry"] if m not in GPU_MODELS]
UNIT = "{dataset}/{model}/seed{seed}"

ANALYSES = config["analyses"]
# tables and figures of each analysis; "core" is always there
ANALYSIS_TABLES = {
    "core": [
        "predictive",
        "brittle_auroc",
        "brittle_aggregate",
        "cost",
        "nominal_vs_stable",
        "seed_variance",
        "budget",
        "capture_curve",
        "case_degradation",
        "dependence",
        "runtime",
        "paper_vs_ours",
    ],
    "search": ["search_gap"],
    "sensitivity": [
        "ablation",
        "stability",
        "baseline_sensitivity",
        "grouping_sensitivity",
        "thresholds",
        "label_reliability",
    ],
    "attribution": ["attribution"],
    "exposure": ["exposure"],
    "natural": ["natural"],
    "calibration": ["calibration"],
    "transfer": ["transfer"],
}
ANALYSIS_FIGURES = {
    "core": [
        "brittle_ranking",
        "capture_curve",
        "case_degradation",
        "mitigation",
        "paper_vs_ours",
    ],
    "search": [],
    "sensitivity": ["threshold_sensitivity"],
    "attribution": [],
    "exposure": [],
    "natural": ["natural_and_structure"],
    "calibration": ["calibration_curve"],
    "transfer": [],
}
TABLES = [t for a in ["core", *ANALYSES] for t in ANALYSIS_TABLES[a]]
FIGURES = [f for a in ["core", *ANALYSES] for f in ANALYSIS_FIGURES[a]]


def one_of(names):
    """Return a regular expression that matches exactly these names (nothing, if there are none)."""
    return "|".join(names) if names else "(?!)"


wildcard_constraints:
    dataset=one_of(sorted(config["dataset_registry"])),
    model=one_of(sorted(config["model_registry"])),
    seed=r"\d+",


PLAIN, TIMED, SCORED = (
    ("parquet",),
    ("parquet", "timings.json"),
    ("parquet", "metrics.parquet"),
)
# what each stage leaves for a unit: folder -> endings; "core" is always there
ANALYSIS_FILES = {
    "core": {
        "certify": TIMED,
        "stress": TIMED,
        "label": PLAIN,
        "rank": PLAIN,
        "evaluate": PLAIN,
        "dependence": PLAIN,
    },
    "search": {"search": (*SCORED, "timings.json")},
    "sensitivity": {"sensitivity": TIMED, "study": PLAIN},
    "attribution": {"attribution": (*SCORED, "timings.json")},
    "exposure": {"exposure": TIMED},
    "natural": {"natural": SCORED},
    "calibration": {"certify_valid": TIMED, "calibration": SCORED},
    "transfer": {"transfer": (*SCORED, "labels.parquet", "timings.json")},
}


PREPARED_FILES = [f"{RESULTS}/split/{{dataset}}/seed{{seed}}.parquet"] + [
    f"{RESULTS}/preprocess/{{dataset}}/seed{{seed}}.{end}"
    for end in ("parquet", "json", "baselines.parquet", "skops")
]
UNIT_FILES = [
    f"{RESULTS}/train/{UNIT}.{end}"
    for end in ("parquet", "json", "timings.json", "model")
] + [
    f"{AUDIT}/{stage}/{UNIT}.{end}"
    for analysis in ("core", *ANALYSES)
    for stage, ends in ANALYSIS_FILES[analysis].items()
    for end in ends
]


def units_of_run():
    """Return (dataset, model, seed) of every unit; of a partial run, of those that are complete."""
    units = [(d, m, s) for d in DATASETS for m in MODELS for s in SEEDS]
    if not config["partial"]:
        return units
    complete = [
        (d, m, s)
        for d, m, s in units
        if all(
            Path(file.format(dataset=d, model=m, seed=s)).exists()
            for file in UNIT_FILES
        )
    ]
    if not complete:
        raise WorkflowError(
            f"partial is true, but no unit of the run is complete under {AUDIT}; start it "
            "without partial, and look at tables part of the way later"
        )
    return complete


UNITS = units_of_run()


def unit_files(pattern, datasets=None, models=None):
    """Return the pattern filled in for every unit, of the run's data sets and models by default.

    A pattern without a model is filled in once for each data set and seed, one without a seed once
    for each data set.
    """
    units = [
        (d, m, s)
        for d in datasets or DATASETS
        for m in models or MODELS
        for s in SEEDS
        if not config["partial"] or (d, m, s) in UNITS
    ]
    files = [pattern.format(dataset=d, model=m, seed=s) for d, m, s in units]
    return list(dict.fromkeys(files))


def all_files(datasets=None, models=None):
    """Return every file of the stages before the tables, for the given data sets and families.

    Asking for the last file alone is not enough: a job that was killed while it made a result anew
    leaves a gap, and Snakemake does not fill a gap whose old consequences are still there.
    """
    data = [f"{DATA}/{{dataset}}.{end}" for end in ("parquet", "json")]
    return [
        f
        for pattern in data + PREPARED_FILES + UNIT_FILES
        for f in unit_files(pattern, datasets, models)
    ]


TABLE_FILES = [
    f"{AUDIT}/tables/{t}.{kind}"
    for t in TABLES
    for kind in ("parquet", "csv", "md", "html")
]
FIGURE_FILES = [
    f"{AUDIT}/figures/{f}.{kind}" for f in FIGURES for kind in ("svg", "png")
]


# --- parameters: canonical JSON of exactly the settings a rule uses, and the hash of its code ---


def settings(value):
    """Return a configuration value as canonical JSON: equal settings give equal text."""
    return canonical_json(value)


_code = {}


def code(script, model=None, part=None):
    """Return the hash of the code a script runs.

    Some modules are named at run time only: that of a model family, a table or a figure. The file
    of a family of one's own is found where the job will find it: from the working folder.
    """
    own = config["model_registry"][model].get("class") if model else None
    part = part or MODULE_OF.get(model)
    key = (script, part, own)
    if key not in _code:
        also = [part] if part else []
        _code[key] = code_hash(ROOT / "scripts" / script, also=also)
        if own:
            _code[key] += code_hash(own_file(own))
    return _code[key]


def dataset_entry(wildcards):
    """Return a data set's entry in a form whose order survives canonical JSON."""
    return portable_entry(config["dataset_registry"][wildcards.dataset])


def dataset_settings(wildcards):
    return settings(dataset_entry(wildcards))


def acquire_data_params(wildcards):
    entry = config["dataset_registry"][wildcards.dataset]
    local = config["data_dir"] if entry["source"]["kind"] == "openml" else None
    return settings({"entry": dataset_entry(wildcards), "data_dir": local})


def local_file(wildcards):
    """Return the file of a data set of kind `file`: when it changes, the data are taken anew."""
    source = config["dataset_registry"][wildcards.dataset]["source"]
    if source["kind"] != "file":
        return []
    path = Path(source["path"])
    if not path.is_file():
        near = [p.name for p in path.parent.glob("*.*")]
        raise WorkflowError(
            f"data set {wildcards.dataset}: no file {path} in {Path.cwd()}; "
            f"{nearest(path.name, near)}"
        )
    return source["path"]


def prepare_data_params(wildcards):
    return settings(
        {
            "entry": dataset_entry(wildcards),
            "grouping": config["grouping"],
            **config["preprocess"],
        }
    )


def train_model_params(wildcards):
    entry = config["model_registry"][wildcards.model]
    return settings({"params": entry.get("params", {}), "class": entry.get("class")})


def train_model_code(wildcards):
    return code("train_model.py", wildcards.model)


def certify_cases_code(wildcards):
    return code("certify_cases.py", wildcards.model)


def stress_cases_code(wildcards):
    return code("stress_cases.py", wildcards.model)


def natural_cases_code(wildcards):
    return code("natural_cases.py", wildcards.model)


def optional_scores(wildcards):
    """Return the files of those selected analyses that add scores to every ranking."""
    return {
        analysis: f"{AUDIT}/{analysis}/{UNIT}.parquet".format(**wildcards)
        for analysis in ("exposure", "attribution")
        if analysis in ANALYSES
    }


def certify_valid_code(wildcards):
    return code("certify_valid.py", wildcards.model)


def search_cases_code(wildcards):
    return code("search_cases.py", wildcards.model)


def vary_certificates_code(wildcards):
    return code("vary_certificates.py", wildcards.model)


def natural_thresholds():
    """Return what the labels of natural stress depend on."""
    labels = config["labels"]
    return settings(
        {
            "literal_draws": config["natural"]["literal_draws"],
            **{key: labels[key] for key in ("tau_p", "tau_kappa", "tau_flip")},
        }
    )


def table_code(table):
    return code("build_table.py", part=f"cfc.tables.{table}")


def certificate_pattern(wildcards):
    return f"{AUDIT}/certify/{UNIT}.parquet"


def figure_code(figure):
    return code("draw_figure.py", part=f"cfc.figures.{figure}")


def protocol_settings():
    return settings({"preset": PRESET, **config["presets"][PRESET]})


def evaluation_settings():
    return settings(
        {
            **config["evaluate"],
            "tau_p": config["labels"]["tau_p"],
            "label_rules": list(config["labels"]["rules"]),
            "n_severities": len(config["presets"][PRESET]["severities"]),
            "order": config["presets"][PRESET]["order"],
        }
    )


def table_settings():
    """What every table states about its run, besides the evaluation's settings."""
    return settings(
        {
            "run": config["run"],
            "preset": PRESET,
            "datasets": DATASETS,
            "models": MODELS,
            "seeds": SEEDS,
            "evaluation": json.loads(evaluation_settings()),
        }
    )


def sensitivity_settings():
    """Return what the certificates under other protocols depend on, variants in written order."""
    own = config["sensitivity"]
    chosen = {key: own[key] for key in ("cases", "threshold", "baselines", "groupings")}
    return settings(
        {**chosen, "variants": [[name, v] for name, v in own["variants"].items()]}
    )


def study_settings():
    own = config["sensitivity"]
    return settings(
        {
            "labels": config["labels"],
            "study": {
                "grid_tau_p": own["tau_p"],
                "grid_tau_kappa": own["tau_kappa"],
                "selective": own["selective"],
                "cells": [
                    f"{grouping}/{baseline}"
                    for grouping in own["groupings"]
                    for baseline in own["baselines"]
                ],
                "threshold": config["audit"]["threshold"],
            },
            "evaluation": {
                key: config["evaluate"][key] for key in ("min_positive", "min_negative")
            },
        }
    )


def expose_cases_code(wildcards):
    return code("expose_cases.py", wildcards.model)


def attribute_cases_code(wildcards):
    return code("attribute_cases.py", wildcards.model)


def transfer_cases_code(wildcards):
    return code("transfer_cases.py", wildcards.model)


def transfer_thresholds():
    """Return what the labels of transfer stress depend on."""
    return settings(
        {key: config["labels"][key] for key in ("tau_p", "tau_kappa", "tau_flip")}
    )


def page_settings():
    """Return the settings the page depends on: what it shows and what its words say."""
    registries = {
        "datasets": (DATASETS, "dataset_registry"),
        "models": (MODELS, "model_registry"),
    }
    titles = {
        key: {name: config[registry][name].get("title", name) for name in names}
        for key, (names, registry) in registries.items()
    }
    return settings(
        {
            "run": config["run"],
            "preset": PRESET,
            "seeds": SEEDS,
            # canonical JSON sorts maps, so the order shown is a list
            **{key: list(map(list, of.items())) for key, of in titles.items()},
            "rules": list(config["labels"]["rules"]),
            "labels": config["labels"],
            "threshold": config["audit"]["threshold"],
            "protocol": json.loads(protocol_settings()),
            **config["page"],
        }
    )


def page_code():
    """Return the hash of the page's code: its modules, template, style and script."""
    from cfc.artifacts import sha256_file
    from cfc.page.render import ASSETS, FOLDER

    return code("build_page.py") + "".join(
        sha256_file(FOLDER / name)[:16] for name in ASSETS
    )


# --- memory and time: measured on covertype, the largest set; see config/README.md -------------


def is_large(wildcards):
    rows = config["dataset_registry"][wildcards.dataset].get("rows") or 0
    return rows > 200_000


def small_mem_mb(wildcards, attempt):
    return 1000 * attempt


def data_mem_mb(wildcards, attempt):
    return (4000 if is_large(wildcards) else 1500) * attempt


def train_mem_mb(wildcards, attempt):
    return (5500 if is_large(wildcards) else 2000) * attempt


def train_runtime(wildcards, attempt):
    return (60 if is_large(wildcards) else 15) * attempt


def audit_mem_mb(wildcards, attempt):
    return (2500 if is_large(wildcards) else 1500) * attempt


# --- targets ---------------------------------------------------------------------------------


def check_target_names(stages, rule_names):
    """Stop where a name of one's own is a stage, a rule or another name already."""
    datasets, models = REGISTERED
    named = [(n, f"data set {n}") for n in datasets] + [
        (n, f"model {n}") for n in models
    ]
    named += [
        (f"{d}_{m}", f"data set {d} with model {m}") for d in datasets for m in models
    ]
    owner = {name: "a stage" for name in stages} | {
        name: "a rule" for name in rule_names
    }
    problems = []
    for name, what in named:
        if owner.setdefault(name, what) != what:
            problems.append(f"  - {what}: the target {name} is {owner[name]} already")
    if problems:
        lines = "\n".join(problems)
        raise WorkflowError(
            f"choose other names in dataset_registry or model_registry\n{lines}"
        )


def unknown_target_input(wildcards):
    """Stop at a target that is no known name, naming the nearest ones."""
    words = "_".join(Path(wildcards.unknown).parts)
    raise WorkflowError(
        f"unknown target {wildcards.unknown!r}; {nearest(words, TARGETS)}. A target is a stage "
        "(such as tables), a data set, a model, <data set>_<model>, or the path of a file."
    )


def lift_start_limit():
    """Take Snakemake's default limit of 100 started jobs a second away.

    Under it (seen in 9.27.1) every job that ends leaves a timer behind that has all open jobs
    weighed anew each second, to the end of the run: after some hundred jobs that costs more than a
    tenth of a core, after thousands all of one. A limit of the user's own stays.
    """
    limiter = getattr(workflow.scheduler, "job_rate_limiter", None)
    if limiter and (limiter.max_jobs, limiter.timespan) == (100, 1):
        workflow.scheduler.job_rate_limiter = None
