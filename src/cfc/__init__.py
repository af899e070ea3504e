"""Counterfactual Fragility Certificates: which confident predictions rest on failing evidence.

The names below are loaded on first use, so that ``import cfc`` stays cheap.
"""

from importlib import import_module

__version__ = "0.1.0"

LOADED_ON_USE = {
    "Protocol": "cfc.protocol",
    "PRESETS": "cfc.protocol",
    "Groups": "cfc.groups",
    "Certificates": "cfc.certificate",
    "certify": "cfc.certificate",
    "StressSettings": "cfc.stress",
    "stress_cases": "cfc.stress",
    "degradation": "cfc.operators",
    "stress_operator": "cfc.operators",
    "audit": "cfc.auditing.audit",
    "Audit": "cfc.auditing.audit",
    "Card": "cfc.auditing.audit",
    "AuditInterrupted": "cfc.auditing.audit",
    "CfcWarning": "cfc.auditing.audit",
    "verify": "cfc.auditing.verify",
    "Verification": "cfc.auditing.verify",
}
__all__ = [*LOADED_ON_USE, "__version__"]


def __getattr__(name: str):
    if name in LOADED_ON_USE:
        return getattr(import_module(LOADED_ON_USE[name]), name)
    raise AttributeError(f"module 'cfc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
