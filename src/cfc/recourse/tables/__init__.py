"""Tables of the recourse benchmark: one module a table, each with a ``TITLE`` and a ``build``."""

from importlib import import_module

from cfc.errors import ConfigError, nearest

# table -> kinds of files it reads; what a rule must wait for
NEEDS = {
    "data_and_bases": ("data", "bases"),
    "magnitude": ("bank", "bases"),
    "magnitude_robustness": ("bank", "evaluation"),
    "methods": ("evaluation", "data"),
    "families": ("evaluation",),
    "levels": ("evaluation", "bank"),
    "apas_certification": ("candidates", "evaluation"),
    "apas_audit": ("audit",),
    "tuning": ("candidates",),
    "certificate_survival": ("evaluation", "certificates"),
    "seconds": ("timings",),
    "paper_vs_ours": ("data", "bases", "bank", "candidates", "evaluation"),
}
TABLES = tuple(NEEDS)


def build_table(table_id: str, results):
    """Build one table by name; see its module for what it holds.

    Args:
        table_id: one of `TABLES`.
        results: `cfc.recourse.results.Results` of one profile.

    Returns:
        `cfc.tables.base.TableResult`.

    Raises:
        ConfigError: the name is unknown.
    """
    if table_id not in TABLES:
        raise ConfigError(f"table {table_id!r} is unknown; {nearest(table_id, TABLES)}")
    return import_module(f"cfc.recourse.tables.{table_id}").build(results)
