"""Counterfactual Fragility Certificates: the experiment, from public data to tables and figures."""

import sys

from snakemake.utils import min_version

min_version("9.22")
# a checkout needs no installed package; scripts get this path too
sys.path.insert(0, f"{workflow.basedir}/src")


configfile: workflow.source_path("config/config.yaml")
configfile: workflow.source_path("config/datasets.yaml")
configfile: workflow.source_path("config/models.yaml")
configfile: workflow.source_path("config/recourse.yaml")


include: "workflow/rules/common.smk"


pathvars:
    data=DATA,
    results=RESULTS,
    audit=AUDIT,
    logs=f"{RESULTS}/logs",
    benchmarks=f"{RESULTS}/benchmarks",


report: "workflow/report/workflow.rst"


onstart:
    lift_start_limit()


localrules:
    all,


rule all:
    """Every table and figure of this run, and the page to look at them."""
    default_target: True
    input:
        all_files(),
        TABLE_FILES,
        FIGURE_FILES,
        f"{AUDIT}/explore.html",
        f"{AUDIT}/verdict.md",
        f"{AUDIT}/verdict.html",


include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/certify.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/search.smk"
include: "workflow/rules/sensitivity.smk"
include: "workflow/rules/natural.smk"
include: "workflow/rules/calibration.smk"
include: "workflow/rules/verdict.smk"
include: "workflow/rules/exposure.smk"
include: "workflow/rules/attribution.smk"
include: "workflow/rules/transfer.smk"
include: "workflow/rules/page.smk"
include: "workflow/rules/recourse_common.smk"
include: "workflow/rules/recourse.smk"
include: "workflow/rules/targets.smk"
