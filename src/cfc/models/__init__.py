"""Model families behind one interface: fit, predict_proba, save, load.

Importing this package loads no machine-learning library; `get_family` imports the module of one
family only.
"""

from cfc.models.base import Model, Param, TrainingData
from cfc.models.registry import FAMILIES, MODULE_OF, get_family, load_model

__all__ = [
    "FAMILIES",
    "MODULE_OF",
    "Model",
    "Param",
    "TrainingData",
    "get_family",
    "load_model",
]
