"""Tables of a run: one module a table, each with a ``TITLE`` and a ``build`` function."""

from importlib import import_module

from cfc.errors import ConfigError, nearest

TABLES = (
    "predictive",
    "brittle_auroc",
    "brittle_aggregate",
    "cost",
    "nominal_vs_stable",
    "seed_variance",
    "budget",
    "capture_curve",
    "case_degradation",
    "search_gap",
    "ablation",
    "stability",
    "baseline_sensitivity",
    "grouping_sensitivity",
    "thresholds",
    "label_reliability",
    "attribution",
    "exposure",
    "transfer",
    "natural",
    "calibration",
    "dependence",
    "runtime",
    "paper_vs_ours",
)


def build_table(table_id: str, rows, expected, settings, context):
    """Build one table by name; see its module for what it holds.

    Args:
        table_id: one of `TABLES`.
        rows: the concatenated evaluate files of the units that have one.
        expected: (dataset, model, seed) of every unit of the run.
        settings: `cfc.evaluate.EvaluationSettings`.
        context: `cfc.tables.base.TableContext`.

    Returns:
        `cfc.tables.base.TableResult`.

    Raises:
        ConfigError: the name is unknown.
    """
    if table_id not in TABLES:
        raise ConfigError(f"table {table_id!r} is unknown; {nearest(table_id, TABLES)}")
    return import_module(f"cfc.tables.{table_id}").build(rows, expected, settings, context)
