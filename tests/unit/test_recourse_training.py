"""Training in stacks against plain torch, the eight families, files of networks."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from recourse_toys import random_net, toy_data

from cfc.errors import ArtifactError, ConfigError, ModelError
from cfc.recourse.families import (
    ARCHITECTURES,
    CONFIGURATIONS,
    FAMILIES,
    BaseModel,
    ChangeFamily,
    Rows,
    Variant,
    build_family,
    get_family,
    perturbed,
    pick_evenly,
    train_ensemble,
)
from cfc.recourse.nets import Net, Stack, load_nets, logits_of, save_nets
from cfc.recourse.pools import check_pools
from cfc.recourse.seeds import SeedPlan
from cfc.recourse.specs import TrainSettings, TrainSpec
from cfc.recourse.training import initial_net, one_pass, train_nets

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 4)).astype(np.float32)
Y = (X[:, 0] + 0.3 * X[:, 1] ** 2 > 0.2).astype(int)
XV = RNG.normal(size=(40, 4)).astype(np.float32)
YV = (XV[:, 0] + 0.3 * XV[:, 1] ** 2 > 0.2).astype(int)


def plain_torch(spec: TrainSpec, epochs: int):
    """The same training written with torch's own modules; returns the network of every epoch."""
    torch.manual_seed(spec.init_seed)
    sizes = [X.shape[1], *spec.hidden, 1]
    layers = []
    for a, b in pairwise(sizes):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers[:-1])
    rows = np.repeat(np.arange(len(X)), np.asarray(spec.weights, dtype=int))
    x, y = torch.from_numpy(X[rows]), torch.tensor(spec.targets[rows], dtype=torch.float32)
    options = {"lr": spec.lr, "weight_decay": spec.weight_decay}
    if spec.optimiser == "sgd":
        optimiser = torch.optim.SGD(net.parameters(), momentum=0.9, **options)
    else:
        optimiser = torch.optim.Adam(net.parameters(), **options)
    loss_of = torch.nn.BCEWithLogitsLoss()
    history = []
    for _ in range(epochs):
        optimiser.zero_grad()
        loss_of(net(x)[:, 0], y).backward()
        optimiser.step()
        with torch.no_grad():
            loss = loss_of(net(torch.from_numpy(XV))[:, 0], torch.tensor(YV, dtype=torch.float32))
        flat = torch.cat([p.detach().flatten() for p in net.parameters()]).numpy().copy()
        history.append((float(loss), flat))
    return history


COUNTS = np.bincount(np.random.default_rng(1).integers(0, 60, 60), minlength=60)
SPECS = [
    TrainSpec(7, np.ones(60), Y, hidden=(6, 5)),
    TrainSpec(8, COUNTS, Y, hidden=(6, 5), weight_decay=1e-2),
    TrainSpec(9, np.ones(60), 1 - Y, hidden=(6, 5), lr=4e-3),
    TrainSpec(7, COUNTS, Y, hidden=(6, 5), optimiser="sgd", lr=0.03, weight_decay=1e-3),
    TrainSpec(7, np.ones(60), Y, hidden=(8,)),
    TrainSpec(7, np.ones(60), Y, hidden=(5, 4, 3)),
]


def test_a_stack_trains_what_torch_trains_alone():
    done = train_nets(X, XV, YV, SPECS, TrainSettings(epochs=5))
    for spec, trained in zip(SPECS, done, strict=True):
        history = plain_torch(spec, 5)
        best = int(np.argmin([loss for loss, _ in history]))
        assert trained.best_epoch == best + 1
        assert trained.validation_loss == pytest.approx(history[best][0], abs=1e-5)
        assert np.allclose(trained.net.flat(), history[best][1], atol=1e-5)


def test_early_stopping_keeps_the_best_epoch_and_ends_after_patience():
    spec = TrainSpec(
        4, np.ones(60), np.random.default_rng(0).integers(0, 2, 60), hidden=(16, 16), lr=0.02
    )
    [done] = train_nets(X, XV, YV, [spec], TrainSettings(epochs=200, patience=4))
    losses = [loss for loss, _ in plain_torch(spec, done.epochs)]
    assert done.epochs < 200
    assert done.epochs == done.best_epoch + 4
    assert done.validation_loss == pytest.approx(min(losses), abs=1e-4)
    assert losses.index(min(losses)) + 1 == done.best_epoch


def test_members_that_stop_early_do_not_disturb_the_others():
    settings = TrainSettings(epochs=60, patience=3)
    together = train_nets(X, XV, YV, SPECS, settings)
    assert len({t.epochs for t in together}) > 1
    for spec, trained in zip(SPECS, together, strict=True):
        [alone] = train_nets(X, XV, YV, [spec], settings)
        assert alone.epochs == trained.epochs
        assert np.allclose(alone.net.flat(), trained.net.flat(), atol=1e-5)


def test_first_weights_are_those_of_torch():
    torch.manual_seed(11)
    first, second = torch.nn.Linear(4, 6), torch.nn.Linear(6, 1)
    net = initial_net(11, 4, (6,))
    assert np.array_equal(net.weights[0], first.weight.detach().numpy())
    assert np.array_equal(net.biases[1], second.bias.detach().numpy())


def test_one_pass_moves_as_torch_does_in_small_batches():
    net = random_net(4, seed=2)
    rows = np.random.default_rng(0).integers(0, 60, size=(3, 21))
    moved = one_pass(net, X, Y, rows, lr=1e-3, batch=8)
    for m in range(3):
        tensors = [
            torch.tensor(a, requires_grad=True)
            for pair in zip(net.weights, net.biases, strict=True)
            for a in pair
        ]
        start = [t.detach().clone() for t in tensors]
        optimiser = torch.optim.Adam(tensors, lr=1e-3)
        for place in range(0, 21, 8):
            part = rows[m, place : place + 8]
            h = torch.from_numpy(X[part])
            for k in (0, 2):
                h = torch.relu(h @ tensors[k].T + tensors[k + 1])
            logits = (h @ tensors[4].T + tensors[5])[:, 0]
            target = torch.tensor(Y[part], dtype=torch.float32)
            optimiser.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(logits, target).backward()
            optimiser.step()
        largest = max(
            float((t.detach() - s).abs().max()) for t, s in zip(tensors, start, strict=True)
        )
        assert moved[m] == pytest.approx(largest, abs=1e-7)
    faster = one_pass(net, X, Y, rows, lr=2e-3, batch=8)
    assert (faster > moved).all()


def test_gradients_of_a_network_are_those_of_torch():
    net = random_net(4, hidden=(5, 6), seed=4)
    x = torch.from_numpy(X).requires_grad_(True)
    h = x
    for w, b in zip(net.weights[:-1], net.biases[:-1], strict=True):
        h = torch.relu(h @ torch.from_numpy(w).T + torch.from_numpy(b))
    logit = (h @ torch.from_numpy(net.weights[-1]).T)[:, 0] + torch.from_numpy(net.biases[-1])
    logit.sum().backward()
    found, slope = net.gradient(X)
    assert np.allclose(found, logit.detach().numpy(), atol=1e-5)
    assert np.allclose(slope, x.grad.numpy(), atol=1e-5)
    assert np.allclose(net.logits(X), found, atol=1e-6)


def test_stacks_and_mixed_shapes_give_each_network_its_logits():
    nets = [
        random_net(4, hidden, seed=s) for s, hidden in enumerate([(4, 4), (3,), (4, 4), (2, 2, 2)])
    ]
    together = logits_of(nets, X)
    for net, own in zip(nets, together, strict=True):
        assert np.allclose(net.logits(X), own, atol=1e-5)
    with pytest.raises(ModelError, match="one shape"):
        Stack(nets)


def test_networks_survive_their_file_and_damage_is_named(tmp_path):
    nets = {
        "base0/000": random_net(3),
        "base0/001": random_net(3, (2,)),
        "base1": random_net(3, seed=8),
    }
    save_nets(nets, tmp_path / "n.safetensors")
    back = load_nets(tmp_path / "n.safetensors")
    assert list(back) == sorted(nets)
    for name, net in nets.items():
        assert np.array_equal(back[name].flat(), net.flat())
        assert back[name].hidden == net.hidden
    (tmp_path / "bad.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ArtifactError, match=r"bad\.safetensors"):
        load_nets(tmp_path / "bad.safetensors")
    with pytest.raises(ModelError, match="diverged"):
        nets["base1"].with_flat(np.full_like(nets["base1"].flat(), np.nan))


# --- families ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    return toy_data(4, n=200)


@pytest.fixture(scope="module")
def bases():
    return [BaseModel(b, 100 + b, initial_net(100 + b, 4, (32, 32))) for b in range(2)]


@pytest.fixture(scope="module", params=["independent", "parity"])
def plan(request):
    return SeedPlan(request.param, "diabetes")


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_has_25_variants_and_starts_from_the_base_seed(name, data, bases, plan):
    rows = Rows.of(data)
    variants = get_family(name).variants(bases[1], rows, plan)
    assert len(variants) == 25
    assert len({(v.level, v.replicate) for v in variants}) == 25
    for variant in variants:
        if variant.train is None:
            continue
        is_base_seed = variant.train.init_seed == bases[1].init_seed
        assert is_base_seed == (name != "new_initialization")
        assert variant.train.weights.shape == rows.y.shape


def levels(name, data, base, plan):
    rows = Rows.of(data)
    found = {}
    for variant in get_family(name).variants(base, rows, plan):
        found.setdefault(variant.level, []).append(variant.train)
    return rows, found


def test_deletion_keeps_and_addition_adds_the_declared_numbers(data, bases, plan):
    n, u = 200, 50
    rows, found = levels("data_deletion", data, bases[0], plan)
    assert {k: len(v) for k, v in found.items()} == {"0.01": 9, "0.05": 8, "0.1": 8}
    for level, keep in (("0.01", 198), ("0.05", 190), ("0.1", 180)):
        for spec in found[level]:
            assert spec.weights[:n].sum() == keep
            assert set(np.unique(spec.weights[:n])) == {0.0, 1.0}
            assert not spec.weights[n:].any()
    rows, found = levels("data_addition", data, bases[0], plan)
    assert {k: len(v) for k, v in found.items()} == {"0.25": 8, "0.5": 8, "0.75": 8, "1": 1}
    for level, size in (("0.25", 12), ("0.5", 25), ("0.75", 38), ("1", u)):
        for spec in found[level]:
            assert spec.weights[:n].min() == 1
            assert spec.weights[n:].sum() == size
    assert rows.n_update == u


def test_label_updates_flip_in_both_directions_and_bootstrap_draws_n(data, bases, plan):
    rows, found = levels("label_update", data, bases[0], plan)
    for level, size in (("0.01", 2), ("0.05", 10), ("0.1", 20)):
        for spec in found[level]:
            changed = np.flatnonzero(spec.targets != rows.y)
            assert len(changed) == size
            assert changed.max() < 200
    flipped = [rows.y[s.targets != rows.y] for s in found["0.1"]]
    assert set(np.concatenate(flipped)) == {0, 1}
    _, found = levels("bootstrap", data, bases[0], plan)
    for spec in found[""]:
        assert spec.weights[:200].sum() == 200
        assert spec.weights.max() > 1
        assert not spec.weights[200:].any()


def test_grids_leave_the_base_configuration_out():
    assert len(CONFIGURATIONS) == len(set(CONFIGURATIONS)) == 25
    assert ("adam", 1e-3, 0.0) not in CONFIGURATIONS
    assert sum(c[0] == "sgd" for c in CONFIGURATIONS) == 6
    assert len(ARCHITECTURES) == len(set(ARCHITECTURES)) == 25
    assert (32, 32) not in ARCHITECTURES
    assert [sum(len(a) == depth for a in ARCHITECTURES) for depth in (1, 2, 3)] == [5, 15, 5]


def test_perturbations_move_every_parameter_and_the_largest_by_the_radius(bases, data, plan):
    for variant in get_family("parameter_perturbation").variants(bases[0], Rows.of(data), plan):
        moved = np.abs(variant.net.flat().astype(float) - bases[0].net.flat())
        assert moved.max() == pytest.approx(float(variant.level), rel=1e-4)
        assert (moved > 0).mean() > 0.98
    again = perturbed(bases[0].net, 0.01, 5)
    assert np.array_equal(again.flat(), perturbed(bases[0].net, 0.01, 5).flat())
    assert not np.array_equal(again.flat(), perturbed(bases[0].net, 0.01, 6).flat())


def test_independent_bases_share_no_draw_and_the_ensemble_shares_none_with_the_bank(data, bases):
    plan, rows = SeedPlan("independent", "diabetes"), Rows.of(data)
    seen = []
    for name in ("new_initialization", "bootstrap", "data_deletion", "label_update"):
        for base in bases:
            seen += [
                s for v in get_family(name).variants(base, rows, plan) for s in v.seeds.values()
            ]
    seen += [plan.seed("betarce_ensemble", b.number, replicate=m) for b in bases for m in range(32)]
    seen += [plan.seed("apas_calibration", b.number, replicate=m) for b in bases for m in range(10)]
    assert len(set(seen)) == len(seen)


def test_the_bank_holds_what_was_declared_and_no_two_networks_of_two_bases_agree(data, bases):
    plan = SeedPlan("independent", "diabetes")
    changed = build_family(
        get_family("bootstrap"), bases, data, plan, count=2, settings=TrainSettings(epochs=3)
    )
    assert [c.base for c in changed] == [0, 0, 1, 1]
    assert len({c.net.flat().tobytes() for c in changed}) == 4
    voters = train_ensemble(data, plan, bases, 3, TrainSettings(epochs=3))
    everyone = [n for nets in voters.values() for n in nets] + [c.net for c in changed]
    assert len({n.flat().tobytes() for n in everyone}) == 10


def test_changed_models_that_generation_saw_are_named(bases):
    plan = SeedPlan("parity", "diabetes")
    numbers = [(b, i) for b in bases for i in range(2)]
    voters = {f"base{b.number}/{i:03d}": random_net(4, seed=10 * b.number + i) for b, i in numbers}

    def check(family, nets, seeds=None):
        """Check one changed network a base model, with the seeds recorded for it."""
        drawn = seeds or ["{}"] * len(nets)
        rows = [{"base": b, "number": 0, "seeds": s} for b, s in enumerate(drawn)]
        bank = {f"base{b}/000": net for b, net in enumerate(nets)}
        check_pools(bases, {family: bank}, {family: rows}, voters, plan)

    moved = [perturbed(b.net, 0.01, seed=b.number) for b in bases]
    check("moved", moved)
    # the base model of another replicate is no model this one's candidates were made with
    check("swapped", [bases[1].net, bases[0].net])
    with pytest.raises(ModelError, match="twice 0 of base model 1 is the base model itself"):
        check("twice", [moved[0], bases[1].net.with_flat(bases[1].net.flat())])
    with pytest.raises(ModelError, match="voted 0 of base model 0 is a voter of BetaRCE"):
        check("voted", [voters["base0/001"], moved[1]])
    # the same training ends in other last digits in other company: recipes are compared too
    own, other = bases[1].init_seed, bases[0].init_seed
    check("new_initialization", moved, [f'{{"init":{own}}}', f'{{"init":{other}}}'])
    with pytest.raises(ModelError, match="initialization 0 of base model 1 is the base model"):
        check("new_initialization", moved, ['{"init":1}', f'{{"init":{own}}}'])
    draw = plan.seed("betarce_ensemble", 0, replicate=1)
    check("data_deletion", moved, [f'{{"rows":{draw}}}', "{}"])  # other rows from the same seed
    with pytest.raises(ModelError, match="bootstrap 0 of base model 0 is a voter of BetaRCE"):
        check("bootstrap", moved, [f'{{"rows":{draw}}}', '{"rows":1}'])


class TooFew(ChangeFamily):
    name, title = "too_few", "Too few"

    def variants(self, base, rows, seeds):
        return [Variant("", 0, net=base.net)]


def test_a_family_with_fewer_variants_than_declared_is_refused(data, bases):
    with pytest.raises(
        ConfigError, match="gives 1 variants of base model 0, but the run declares 3"
    ):
        build_family(TooFew(), bases, data, SeedPlan("parity", "diabetes"), count=3)
    with pytest.raises(ModelError, match="either a training or a network"):
        Variant("", 0)
    with pytest.raises(ConfigError, match="nearest known: bootstrap"):
        get_family("boostrap")


def test_few_variants_are_spread_over_all_levels():
    assert pick_evenly(list(range(25)), 2) == [0, 24]
    assert pick_evenly(list(range(25)), 25) == list(range(25))
    assert pick_evenly([1, 2, 3], 1) == [1]


def test_a_network_whose_layers_do_not_fit_is_refused():
    with pytest.raises(ModelError, match="do not make a network"):
        Net((np.zeros((2, 3)), np.zeros((1, 4))), (np.zeros(2), np.zeros(1)))
