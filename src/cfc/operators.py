"""Degradation and stress operators of one's own: functions with a name and declared randomness.

An operator says which random numbers it needs and gets them as an argument, from streams keyed by
(seed, name, case, severity, draw). So it needs no generator of its own, and its outcome for a case
does not depend on the batch, the order or the other cases.
"""

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cfc.errors import CfcError, ConfigError
from cfc.groups import Groups
from cfc.seeding import uniforms

RANDOMNESS = ("none", "draw", "group", "coordinate")
MILLIONTHS = 1_000_000


@dataclass(frozen=True)
class Context:
    """What an operator may look at besides the rows.

    Attributes:
        groups: partition of the d coordinates.
        baseline: x̄ [d].
        rank: place of each coordinate's group in the order of removal, 0 = first, int16 [n, d];
            None in stress, which knows no order.
        donors: background rows that the score was not built on, [m, d]; None in a degradation.
        scale: standard deviation of each numeric coordinate in the background, 0 elsewhere [d].
    """

    groups: Groups
    baseline: np.ndarray
    rank: np.ndarray | None
    donors: np.ndarray | None
    scale: np.ndarray | None


@dataclass(frozen=True)
class Operator:
    """A registered function.

    Attributes:
        name: name in protocols and files.
        function: see `degradation` and `stress_operator`.
        randomness: which uniforms it is given: none, one a draw, one a group or one a coordinate.
        hash: 16 hexadecimal digits of its source code, to tell in a file which version ran.
    """

    name: str
    function: Callable
    randomness: str
    hash: str

    def states(self, X, severity, context, *, seed, case_ids, draws=None) -> np.ndarray:
        """Return what the function makes of rows [n, d]: [n, d], or [n, H, d] with ``draws`` = H.

        Raises:
            CfcError: the answer has another shape, or case ids are needed and missing.
        """
        counts = {"draw": 1, "group": len(context.groups), "coordinate": X.shape[1]}
        shape = X.shape if draws is None else (len(X), draws, X.shape[1])
        numbers = ()
        if self.randomness != "none":
            if case_ids is None:
                raise CfcError(f"the random operator {self.name!r} needs case_ids")
            u = uniforms(
                seed,
                f"operator: {self.name}",
                case_ids,
                round(severity * MILLIONTHS),
                np.arange(draws or 1),
                counts[self.randomness],
            )
            numbers = (u[:, 0] if draws is None else u,)
        elif draws is not None:
            shape = X.shape
        made = np.asarray(self.function(X, severity, context, *numbers), dtype=X.dtype)
        if made.shape != shape:
            raise CfcError(
                f"the operator {self.name!r} answered rows of shape {X.shape} with an array of "
                f"shape {made.shape}; expected {shape}"
            )
        if draws is not None and made.ndim == 2:
            made = np.repeat(made[:, None], draws, axis=1)
        return made


DEGRADATIONS: dict[str, Operator] = {}
STRESSES: dict[str, Operator] = {}


def degradation(name: str, *, randomness: str = "none") -> Callable:
    """Register a degradation operator; its name may then stand in ``Protocol.operators``.

    The function is called as ``f(X, severity, context)``, or ``f(X, severity, context, u)`` when it
    declares randomness, with rows [n, d] and uniforms u [n, 1], [n, G] or [n, d] in [0, 1). It
    returns the degraded rows [n, d]. Severities are those of the protocol, in (0, 1].

    >>> import numpy as np
    >>> @degradation("first_to_zero")
    ... def first_to_zero(X, severity, context):
    ...     return np.where(context.rank == 0, (1 - severity) * X, X)
    >>> "first_to_zero" in DEGRADATIONS
    True

    Args:
        name: a Python identifier, none of the built-in operators.
        randomness: ``none``, ``draw``, ``group`` or ``coordinate``.

    Raises:
        ConfigError: the name is not free or not an identifier; unknown randomness.
    """
    return _registrar(DEGRADATIONS, name, randomness)


def stress_operator(name: str, *, randomness: str = "none") -> Callable:
    """Register a stress operator; its name may then stand in ``StressSettings``.

    The function is called as ``f(X, severity, context)`` and returns [n, d], or, when it declares
    randomness, as ``f(X, severity, context, u)`` with uniforms u [n, H, 1], [n, H, G] or [n, H, d]
    for H draws, and returns [n, H, d]. Severities are above 0.

    Numbers that arrive with the wrong unit, one draw in so many:

    >>> import numpy as np
    >>> from cfc import StressSettings
    >>> @stress_operator("wrong_unit", randomness="draw")
    ... def wrong_unit(X, severity, context, u):
    ...     return np.where(u < severity, 1000 * X[:, None, :], X[:, None, :])
    >>> StressSettings({"wrong_unit": (0.01, 0.1)}, {"wrong_unit": 50}).rows_per_case
    100

    Args:
        name: a Python identifier, none of the built-in operators.
        randomness: ``none``, ``draw``, ``group`` or ``coordinate``.

    Raises:
        ConfigError: the name is not free or not an identifier; unknown randomness.
    """
    return _registrar(STRESSES, name, randomness)


def _registrar(registry: dict[str, Operator], name: str, randomness: str) -> Callable:
    from cfc.protocol import OPERATORS as DEGRADING
    from cfc.stress import OPERATORS as STRESSING

    if not name.isidentifier():
        raise ConfigError(f"operator name {name!r} must be a Python identifier")
    if name in (*DEGRADING, *STRESSING):
        raise ConfigError(f"operator name {name!r} is built in; choose another")
    if randomness not in RANDOMNESS:
        raise ConfigError(
            f"operator {name!r}: randomness {randomness!r} is unknown; one of "
            + ", ".join(RANDOMNESS)
        )

    def register(function: Callable) -> Callable:
        operator = Operator(name, function, randomness, _source_hash(function))
        if name in registry and registry[name].hash != operator.hash:
            raise ConfigError(f"another operator {name!r} is registered already; choose a name")
        registry[name] = operator
        return function

    return register


def _source_hash(function: Callable) -> str:
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        # typed at a prompt: the compiled code stands in for the source
        code = getattr(function, "__code__", None)
        text = repr((code.co_code, code.co_consts, code.co_names)) if code else repr(function)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
