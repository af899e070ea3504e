# Names to ask for: a stage, a data set, a family or a pair. `snakemake -n adult_xgboost` and so on.
# Every registered data set and family can be asked for, in this run's selection or not.

STAGES = {
    "acquire": [f"{DATA}/{d}.parquet" for d in DATASETS],
    "split": unit_files(f"{RESULTS}/split/{{dataset}}/seed{{seed}}.parquet"),
    "preprocess": unit_files(f"{RESULTS}/preprocess/{{dataset}}/seed{{seed}}.parquet"),
    "train": unit_files(f"{RESULTS}/train/{UNIT}.parquet"),
    "certify": CERTIFICATE_FILES,
    "stress": unit_files(f"{AUDIT}/stress/{UNIT}.parquet"),
    "label": unit_files(f"{AUDIT}/label/{UNIT}.parquet"),
    "rank": unit_files(f"{AUDIT}/rank/{UNIT}.parquet"),
    "evaluate": METRIC_FILES,
    "tables": all_files() + TABLE_FILES,
    "figures": all_files() + TABLE_FILES + FIGURE_FILES,
    "page": PAGE_FILES,
    "dependence": unit_files(f"{AUDIT}/dependence/{UNIT}.parquet"),
    "verdict": [f"{AUDIT}/verdict.md", f"{AUDIT}/verdict.html"],
}
# every analysis writes its cases to a folder of its own name
STAGES |= {a: unit_files(f"{AUDIT}/{a}/{UNIT}.parquet") for a in ANALYSES}
check_target_names(STAGES, [rule.name for rule in workflow.rules])

for stage, files in STAGES.items():

    rule:
        name:
            stage
        input:
            files,
        localrule: True


for dataset in REGISTERED[0]:

    rule:
        name:
            dataset
        input:
            all_files(datasets=[dataset]),
        localrule: True


for model in REGISTERED[1]:

    rule:
        name:
            model
        input:
            all_files(models=[model]),
        localrule: True


for dataset in REGISTERED[0]:
    for model in REGISTERED[1]:

        rule:
            name:
                f"{dataset}_{model}"
            input:
                all_files(datasets=[dataset], models=[model]),
            localrule: True


TARGETS = ["all", "recourse", *STAGES, *REGISTERED[0], *REGISTERED[1]]
TARGETS += [
    f"{dataset}_{model}" for dataset in REGISTERED[0] for model in REGISTERED[1]
]


# Answers for every name without a rule: its input function stops with the nearest known names.
rule unknown_target:
    input:
        unknown_target_input,
    output:
        "{unknown}",
    wildcard_constraints:
        unknown=r"(?!results/|data/)[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)?",
    localrule: True
