# Paths, wildcard constraints, inputs and parameters of the recourse benchmark. No rules.

from cfc.recourse.figures import FIGURES as RECOURSE_FIGURES
from cfc.recourse.methods.registry import MODULE_OF as RECOURSE_MODULE_OF
from cfc.recourse.tables import NEEDS as RECOURSE_NEEDS

RECOURSE = config["recourse"]
PROFILE = f"{RESULTS}/recourse/{{profile}}"
REFERENCE_NUMBERS = str(ROOT / "config/reference/recourse_paper.csv")
# kinds of files -> their paths, for one profile; filled in for every data set, method and family
RECOURSE_FILES = {
    "data": ("data/{dataset}.parquet",),
    "bases": (
        "bases/{dataset}.parquet",
        "bases/{dataset}.safetensors",
        "bases/{dataset}.requests.parquet",
    ),
    "bank": (
        "bank/{dataset}/{family}.parquet",
        "bank/{dataset}/{family}.safetensors",
    ),
    "candidates": (
        "candidates/{dataset}/{method}.parquet",
        "candidates/{dataset}/{method}.facts.json",
    ),
    "timings": ("candidates/{dataset}/{method}.timings.json",),
    "evaluation": (
        "evaluation/{dataset}.candidates.parquet",
        "evaluation/{dataset}.survival.parquet",
        "evaluation/{dataset}.models.parquet",
    ),
    "certificates": ("certificates/{dataset}.parquet",),
    "audit": ("audit/{dataset}.parquet",),
}
if "apas" not in RECOURSE["methods"]:
    RECOURSE_FILES["audit"] = ()


wildcard_constraints:
    profile=one_of(["independent", "parity"]),
    family=r"[a-z0-9_]+",
    method=r"[a-z0-9_]+",


def recourse_files(kind, profile, dataset=None):
    """Return every file of a kind for one profile, of one data set or of all."""
    found = [
        f"{PROFILE}/{pattern}".format(profile=profile, dataset=d, method=m, family=f)
        for pattern in RECOURSE_FILES[kind]
        for d in ([dataset] if dataset else RECOURSE["datasets"])
        for m in RECOURSE["methods"]
        for f in RECOURSE["families"]
    ]
    return list(dict.fromkeys(found))


def recourse_outputs():
    """Return everything the benchmark makes, for every profile of the run."""
    files = []
    for profile in RECOURSE["profiles"]:
        for kind in RECOURSE_FILES:
            files += recourse_files(kind, profile)
        folder = PROFILE.format(profile=profile)
        files += [
            f"{folder}/tables/{t}.{end}"
            for t in RECOURSE_NEEDS
            for end in ("parquet", "csv", "md", "html")
        ]
        files += [
            f"{folder}/figures/{f}.{end}"
            for f in RECOURSE_FIGURES
            for end in ("svg", "png")
        ]
    return files


def prepare_recourse_config(wildcards):
    return settings(
        RECOURSE["dataset_options"].get(wildcards.dataset, {"favourable": None})
    )


def train_bases_config():
    return settings({key: RECOURSE[key] for key in ("bases", "requests", "training")})


def change_models_config(wildcards):
    return settings(
        {
            "variants": RECOURSE["variants"],
            "training": RECOURSE["training"],
            "class": RECOURSE["own_families"].get(wildcards.family),
        }
    )


def own_code(script, path, part=None):
    """Return the hash of a script's code and of a file of one's own it will load."""
    from cfc.artifacts import sha256_file

    source = (path or "").rpartition(":")[0]
    also = sha256_file(source)[:16] if source.endswith(".py") else ""
    return code(script, part=part) + also


def change_models_code(wildcards):
    return own_code("change_models.py", RECOURSE["own_families"].get(wildcards.family))


def train_ensemble_config():
    return settings({key: RECOURSE[key] for key in ("ensemble", "training")})


def generate_recourse_config(wildcards):
    method = wildcards.method
    return settings(
        {
            "params": RECOURSE["method_options"].get(method, {}),
            # a list of pairs: canonical JSON sorts maps, but the order of a grid decides ties
            "grid": (
                list(map(list, RECOURSE["grids"][method].items()))
                if method in RECOURSE["grids"]
                else None
            ),
            "class": RECOURSE["own_methods"].get(method),
            "tuning_requests": RECOURSE["tuning_requests"],
            "timed_requests": RECOURSE["timed_requests"],
        }
    )


def generate_recourse_code(wildcards):
    method = wildcards.method
    return own_code(
        "generate_recourse.py",
        RECOURSE["own_methods"].get(method),
        RECOURSE_MODULE_OF.get(method),
    )


def generate_recourse_runtime(wildcards, attempt):
    return 60 * attempt


def bank_networks(wildcards):
    return [
        f for f in recourse_files("bank", **wildcards) if f.endswith(".safetensors")
    ]


def bank_models(wildcards):
    return [f for f in recourse_files("bank", **wildcards) if f.endswith(".parquet")]


def candidate_files(wildcards):
    return [
        f for f in recourse_files("candidates", **wildcards) if f.endswith(".parquet")
    ]


def recourse_table_inputs(wildcards):
    """Return the files a table is built from."""
    return [
        f
        for kind in RECOURSE_NEEDS[wildcards.table]
        for f in recourse_files(kind, wildcards.profile)
    ]


def recourse_table_config():
    titles = {d: config["dataset_registry"][d]["title"] for d in RECOURSE["datasets"]}
    return settings(
        {
            "run": config["run"],
            **{key: RECOURSE[key] for key in ("datasets", "methods", "families")},
            "titles": titles,
            "settings": {
                "exact_depth": RECOURSE["certificates"]["exact_depth"],
                "n_bootstrap": RECOURSE["n_bootstrap"],
                "bootstrap_seed": RECOURSE["bootstrap_seed"],
            },
        }
    )


def recourse_table_code(wildcards):
    return code(
        "build_recourse_table.py", part=f"cfc.recourse.tables.{wildcards.table}"
    )


def recourse_figure_table(wildcards):
    table = RECOURSE_FIGURES[wildcards.figure]
    return f"{PROFILE}/tables/{table}.parquet".format(profile=wildcards.profile)


def recourse_figure_code(wildcards):
    return code(
        "draw_recourse_figure.py", part=f"cfc.recourse.figures.{wildcards.figure}"
    )
