"""Names of the variants of a protocol that the analysis `sensitivity` compares."""

DEFAULT = "default"  # the protocol in use
TEMPERED = "tempered"  # the protocol in use, after global temperature scaling
IN_USE = "in_use"  # stands for the grouping in use, which may differ between data sets
# ranking score of a variant -> column of the sensitivity file it is ranked by
VARIANT_SCORES = {
    "fds": "u",
    "rcma": "rcma",
    "one_step_relative": "one_step_relative",
    "one_step_sum": "one_step_sum",
}


def cell_name(grouping: str, baseline: str) -> str:
    """Return the variant name of one cell of the grouping x baseline grid."""
    return f"{grouping}/{baseline}"


def is_cell(variant: str) -> bool:
    """Tell whether a variant is a cell of the grid."""
    return "/" in variant
