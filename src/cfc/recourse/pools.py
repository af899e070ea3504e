"""Networks that generation saw and networks that judge are kept apart, and this is checked."""

from collections.abc import Iterable, Mapping, Sequence

from cfc.errors import ModelError
from cfc.recourse.families import BaseModel
from cfc.recourse.nets import Net
from cfc.recourse.stages import nets_of


def net_id(net: Net) -> tuple[tuple[int, ...], bytes]:
    """Return what makes a network the same one: its layer sizes and the bits of its parameters."""
    return (net.n_features, *net.hidden), net.flat().tobytes()


def check_pools(
    bases: Iterable[BaseModel],
    bank: Mapping[str, Mapping[str, Net]],
    ensemble: Mapping[str, Net],
) -> None:
    """Check that no changed model of a base model is one its candidates were made with.

    Those are the base model itself and BetaRCE's voters. APΔS' sampled networks are never stored;
    they come from streams of their own.

    Args:
        bases: the base models.
        bank: family -> changed networks by name, as `nets_of` takes them.
        ensemble: voters by name.

    Raises:
        ModelError: a changed model is the base model or one of its voters; all are named.
    """
    shared = []
    for base in bases:
        seen = {net_id(net): "a voter of BetaRCE" for net in nets_of(ensemble, base.number)}
        seen[net_id(base.net)] = "the base model itself"
        for family, nets in bank.items():
            shared += [
                f"{family} {number} of base model {base.number} is {seen[net_id(net)]}"
                for number, net in enumerate(nets_of(nets, base.number))
                if net_id(net) in seen
            ]
    if shared:
        raise ModelError(
            "changed models that candidates were made with cannot judge them: "
            f"{_first(shared)}. A family must change the model; look at its variants"
        )


def _first(texts: Sequence[str], most: int = 5) -> str:
    rest = len(texts) - most
    return "; ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")
