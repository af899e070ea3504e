"""Networks that generation saw and networks that judge are kept apart, and this is checked."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from cfc.errors import ModelError
from cfc.recourse.families import BaseModel
from cfc.recourse.nets import Net
from cfc.recourse.seeds import SeedPlan
from cfc.recourse.stages import nets_of


def net_id(net: Net) -> tuple[tuple[int, ...], bytes]:
    """Return what makes a network the same one: its layer sizes and the bits of its parameters."""
    return (net.n_features, *net.hidden), net.flat().tobytes()


def check_pools(
    bases: Iterable[BaseModel],
    bank: Mapping[str, Mapping[str, Net]],
    models: Mapping[str, Iterable[Mapping]],
    ensemble: Mapping[str, Net],
    seeds: SeedPlan,
) -> None:
    """Check that no changed model of a base model is one its candidates were made with.

    Those are the base model itself and BetaRCE's voters. Compared are parameters, bit for bit, and
    recipes: the same training can end in other last digits beside other networks. APΔS' sampled
    networks are never stored and come from streams of their own.

    Args:
        bases: the base models.
        bank: family -> changed networks by name, as `nets_of` takes them.
        models: family -> rows about them with ``base``, ``number`` and ``seeds`` (JSON).
        ensemble: voters by name.
        seeds: the plan they were drawn by.

    Raises:
        ModelError: a changed model is the base model or one of its voters; all are named.
    """
    shared = []
    for base in bases:
        voters = nets_of(ensemble, base.number)
        seen = {net_id(net): "a voter of BetaRCE" for net in voters}
        seen[net_id(base.net)] = "the base model itself"
        draws = {
            seeds.seed("betarce_ensemble", base.number, replicate=m) for m in range(len(voters))
        }
        for family, nets in bank.items():
            alike = {
                number: seen[net_id(net)]
                for number, net in enumerate(nets_of(nets, base.number))
                if net_id(net) in seen
            }
            alike |= dict(_same_recipe(family, base, models[family], draws))
            shared += [
                f"{family} {number} of base model {base.number} is {what}"
                for number, what in sorted(alike.items())
            ]
    if shared:
        raise ModelError(
            "changed models that candidates were made with cannot judge them: "
            f"{_first(shared)}. A family must change the model; look at its variants and seeds"
        )


def _same_recipe(family, base, rows, draws: set[int]) -> Iterator[tuple[int, str]]:
    """Yield the numbers of changed models trained as the base model or a voter was."""
    for row in rows:
        drawn = json.loads(row["seeds"])
        if row["base"] != base.number:
            continue
        if family == "new_initialization" and drawn.get("init") == base.init_seed:
            yield row["number"], "the base model itself"
        if family == "bootstrap" and drawn.get("rows") in draws:
            yield row["number"], "a voter of BetaRCE"


def _first(texts: Sequence[str], most: int = 5) -> str:
    rest = len(texts) - most
    return "; ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")
