"""The paper's models: by hand, against each other, against the kernel; and that they converge."""

import json
import math
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest

import commands
from snowmelt.core.errors import BadOption
from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool.kernel import run
from snowmelt_lab.pool.models import Model, Modelled, solve
from snowmelt_lab.pool.models.chain import (
    EVERYBODY,
    Array,
    Setting,
    expit,
    shares_of_time,
    solved,
)
from snowmelt_lab.pool.models.equal import solve_equal
from snowmelt_lab.pool.models.lists import solve_lists
from snowmelt_lab.pool.models.mixing import fixed_point
from snowmelt_lab.pool.models.roots import root
from snowmelt_lab.pool.models.typed import solve_typed
from snowmelt_lab.pool.options import Algorithm, Group, PoolOptions, groups_of

HALVES = groups_of("50:2,50:1")
TENTH = groups_of("10:9,90:1")
LOADS = (50, 100, 150, 200)


def one(value: float) -> Array:
    return np.array([value])


def setting(
    make: float = 1.0, blocks: float = 1.0, askers: int = 1, buffers: int = 1, spare: float = 0.0
) -> Setting:
    population = one(askers + spare)
    return Setting(one(make), one(blocks), one(float(askers)), population, buffers)


# --- one producer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_a_chain_is_in_detailed_balance(seed: int) -> None:
    chance = Random(seed)
    askers, buffers = chance.randint(1, 40), chance.randint(1, 20)
    make, blocks = 10 ** chance.uniform(-2, 2), chance.random() ** 3
    spare = chance.choice([0.0, 7.0, EVERYBODY])
    rate = make * 10 ** chance.uniform(-0.7, 0.7)
    one_of = setting(make, blocks, askers, buffers, spare)

    def coming(state: int) -> float:
        waiting = max(0, -state)
        return 0.0 if waiting == askers else rate * max(0.0, 1 - waiting / (askers + spare))

    weights = {0: 1.0}
    for state in range(buffers):
        weights[state + 1] = weights[state] * make / coming(state + 1)
    for state in range(0, -askers, -1):
        weights[state - 1] = weights[state] * blocks * coming(state) / make
    whole = sum(weights.values())
    shares = {state: weight / whole for state, weight in weights.items()}
    asked = sum(share * coming(state) for state, share in shares.items())
    unmet = sum(share * coming(state) for state, share in shares.items() if state <= 0)

    chain = solved(one_of, one(math.log(rate)))
    assert chain.asked[0] == pytest.approx(asked, rel=1e-10)
    assert chain.empty[0] == pytest.approx(unmet / asked, rel=1e-10)
    assert chain.full[0] == pytest.approx(shares[buffers], rel=1e-10)
    line = sum(max(0, -state) * share for state, share in shares.items())
    assert chain.line[0] == pytest.approx(line, rel=1e-10, abs=1e-15)
    told = shares_of_time(one_of, one(math.log(rate)), one(1.0))
    assert told == pytest.approx({str(k): v for k, v in shares.items() if v >= 1e-6}, rel=1e-9)
    # what comes in is what goes out
    taken = asked - unmet + blocks * unmet
    assert make * (1 - chain.full[0]) == pytest.approx(taken, rel=1e-10)


def test_how_a_line_follows_the_rate() -> None:
    one_of = setting(blocks=0.7, askers=30, buffers=4, spare=50)
    below, at, above = (solved(one_of, one(log_rate)) for log_rate in (-1e-5, 0.0, 1e-5))
    assert at.spread[0] == pytest.approx((above.line[0] - below.line[0]) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("log_rate", [-690.0, -30.0, 0.0, 30.0, 690.0])
@pytest.mark.parametrize(("askers", "buffers"), [(1, 1), (10_000, 1), (10_000, 10**6), (1, 10**6)])
@pytest.mark.parametrize("spare", [0.0, EVERYBODY])
def test_a_chain_does_not_overflow(
    log_rate: float, askers: int, buffers: int, spare: float
) -> None:
    chain = solved(setting(1.0, 1.0, askers, buffers, spare), one(log_rate))
    for value in (chain.log_odds, chain.asked, chain.line, chain.full):
        assert np.isfinite(value[0])
    assert 0 <= chain.line[0] <= askers
    assert 0 <= chain.full[0] <= 1
    assert 0 <= expit(chain.log_odds)[0] <= 1


# --- by hand --------------------------------------------------------------------------------------


def test_one_producer_one_consumer_one_place_no_way_to_go() -> None:
    """States -1, 0, 1 are equally likely; the consumer waits in the first alone."""
    options = PoolOptions(producers=1, consumers=1, buffers=1, max_hops=1, transit=0)
    answer = solve(options)
    assert answer.states == pytest.approx({"-1": 1 / 3, "0": 1 / 3, "1": 1 / 3})
    assert answer.throughput == pytest.approx(0.01 * 2 / 3)
    assert answer.wait_mean == pytest.approx(50)
    assert answer.probe_empty == pytest.approx(1 / 2)
    assert answer.converged


@pytest.mark.parametrize("consumers", [2, 7])
def test_one_producer_is_a_machine_with_repairmen(consumers: int) -> None:
    """With one producer and one hop the chain is the whole pool: births and deaths, by hand."""
    options = PoolOptions(producers=1, consumers=consumers, buffers=3, max_hops=1, transit=0)
    weights = [1.0]  # of states 3, 2, 1, 0, -1, …: each request goes one down
    for step in range(3 + consumers):
        weights.append(weights[-1] * min(consumers, consumers + 3 - step))
    full = weights[0] / sum(weights)
    assert solve(options).throughput == pytest.approx(0.01 * (1 - full), rel=1e-9)


def test_with_one_hop_every_request_is_one_probe_and_two_messages() -> None:
    answer = solve(PoolOptions(max_hops=1))
    assert (answer.hops_mean, answer.messages_per_object) == (1, 2)
    assert answer.request_blocked == pytest.approx(answer.probe_empty)


def test_a_central_buffer_is_one_producer_with_all_places() -> None:
    central = PoolOptions(algorithm=Algorithm.CENTRAL, producers=3, consumers=4, buffers=2)
    shared = PoolOptions(producers=1, consumers=4, buffers=6, produce_rate=0.03, max_hops=1)
    assert solve(central).wait_mean == pytest.approx(solve(shared).wait_mean)
    assert solve(central).messages_per_object == 4


# --- against each other ---------------------------------------------------------------------------


def same(one: Modelled, other: Modelled) -> None:
    for name in ("throughput", "wait_mean", "hops_mean", "producer_blocked", "probe_empty"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-8), name
    assert one.states == pytest.approx(other.states, abs=1e-6)


@pytest.mark.parametrize("max_hops", [1, 3, 10])
@pytest.mark.parametrize("consumers", LOADS)
def test_kinds_and_lists_that_are_equal_are_equal_producers(consumers: int, max_hops: int) -> None:
    options = {"consumers": consumers, "max_hops": max_hops}
    equal = solve_equal(PoolOptions(**options))
    same(solve_typed(PoolOptions(groups=groups_of("30:1,70:1"), **options)), equal)
    same(solve_lists(PoolOptions(fan_out=100, **options)), equal)


def test_lists_of_everybody_are_kinds() -> None:
    same(solve_lists(PoolOptions(groups=HALVES, fan_out=100)), solve(PoolOptions(groups=HALVES)))


def test_adaptive_access_is_access_by_rates() -> None:
    shares = (2 / 3, 1 / 3)
    weighted = PoolOptions(groups=HALVES, access=AccessKind.WEIGHTED, shares=shares)
    same(solve(PoolOptions(groups=HALVES, access=AccessKind.ADAPTIVE)), solve(weighted))


# --- whether it converges -------------------------------------------------------------------------


def holds(options: PoolOptions, answer: Modelled) -> None:
    """M mu U_c = N lambda U_p, and consumers are busy or wait."""
    made = options.producers * options.produce_rate * (1 - answer.producer_blocked)
    if not options.groups:
        assert answer.throughput == pytest.approx(made, rel=1e-8)
    used = options.consumers * options.consume_rate * answer.consumer_busy
    assert answer.throughput == pytest.approx(used, rel=1e-8)
    cycle = 1 / options.consume_rate + answer.wait_mean
    assert answer.throughput == pytest.approx(options.consumers / cycle, rel=0.01)
    assert answer.converged, options


FIGURES: list[dict[str, Any]] = [
    *({"consumers": m, "max_hops": h} for m in LOADS for h in (1, 3, 10)),
    *({"consumers": m, "max_hops": 5, "buffers": f} for m in (100, 200) for f in (1, 20)),
    *({"groups": g, "max_hops": h} for g in (HALVES, TENTH) for h in (1, 2, 5, 10)),
    *(
        {"groups": g, "access": AccessKind.WEIGHTED, "shares": (s, 1 - s)}
        for g in (HALVES, TENTH)
        for s in (0.05, 0.5, 0.95)
    ),
    *({"max_hops": h, "fan_out": f} for h in (1, 3, 10) for f in (1, 3, 100)),
]


def test_the_models_converge_on_the_points_of_all_figures() -> None:
    for point in FIGURES:
        options = PoolOptions(**point)
        holds(options, solve(options))


def anything(chance: Random) -> PoolOptions:
    producers, consumers = (round(10 ** chance.uniform(0, 2.477)) for _ in range(2))
    groups: tuple[Group, ...] = ()
    if producers > 2 and chance.random() < 0.7:
        first = chance.randint(1, producers - 1)
        counts = (first, producers - first)
        groups = tuple(Group(count, 10 ** chance.uniform(0, 2)) for count in counts)
    least = math.ceil(producers / consumers)
    load = 10 ** chance.uniform(-1, 0.7)
    return PoolOptions(
        producers=producers,
        consumers=consumers,
        buffers=round(10 ** chance.uniform(0, 1.7)),
        max_hops=chance.randint(1, 10),
        consume_rate=0.01 * load * producers / consumers,
        transit=chance.choice([0.0, 1.0, 30.0]),
        groups=groups,
        access=chance.choice([AccessKind.UNIFORM, AccessKind.ADAPTIVE]),
        fan_out=chance.choice([0, chance.randint(least, producers)]),
    )


def test_the_models_converge_on_anything() -> None:
    chance = Random(6)
    for _ in range(40):
        options = anything(chance)
        holds(options, solve(options))


def test_a_root_and_a_fixed_point_are_found_from_afar() -> None:
    assert root(lambda x: math.expm1(x - 50), -400.0) == pytest.approx(50)
    assert root(lambda x: x**3 + x - 1e9, 0.0) == pytest.approx(999.99966667)
    turned = np.array([[0.0, -3.0], [3.0, 0.0]])  # plain iteration runs away from it
    assert fixed_point(lambda at: turned @ at + 1, np.zeros(2)) == pytest.approx([-0.2, 0.4])


# --- against what is simulated --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("consumers", "max_hops", "throughput", "wait"),
    [
        (100, 1, 0.68, 46.7),
        (100, 2, 0.888, 12.7),
        (100, 3, 0.932, 7.2),
        (100, 5, 0.960, 4.2),
        (100, 10, 0.969, 3.2),
        (200, 3, 0.996, 100.3),
    ],
)
def test_reference_figures(consumers: int, max_hops: int, throughput: float, wait: float) -> None:
    options = PoolOptions(consumers=consumers, max_hops=max_hops)
    assert solve(options).throughput == pytest.approx(throughput, rel=0.01)
    better = solve(options, Model.REFINED)
    assert better.throughput == pytest.approx(throughput, rel=0.004)
    assert better.wait_mean == pytest.approx(wait, rel=0.03)
    assert better.converged


@pytest.mark.parametrize(
    ("changed", "within"),
    [
        ({"producers": 1, "consumers": 2, "max_hops": 1}, 0.012),
        ({"producers": 10, "consumers": 20, "max_hops": 1}, 0.015),
        ({"groups": TENTH, "max_hops": 3}, 0.015),
        ({"fan_out": 5, "max_hops": 1}, 0.02),
        ({"process": 20.0}, 0.015),
        ({"algorithm": Algorithm.CENTRAL, "producers": 5, "consumers": 5}, 0.015),
    ],
    ids=str,
)
def test_a_model_is_near_the_kernel(changed: dict[str, Any], within: float) -> None:
    options = PoolOptions(**{"objects": 300_000, "half_width": 0, **changed})
    assert solve(options).throughput == pytest.approx(run(options).throughput, rel=within)


def test_what_wanders_lengthens_the_wait_of_few_producers() -> None:
    options = PoolOptions(producers=10, consumers=10, max_hops=5, objects=300_000, half_width=0)
    measured = run(options)
    assert solve(options).wait_mean < 0.7 * measured.wait_mean
    assert solve(options, Model.REFINED).wait_mean == pytest.approx(measured.wait_mean, rel=0.15)


# --- the command ----------------------------------------------------------------------------------


ran = partial(commands.ran, "model")


def test_the_command_takes_what_lab_pool_takes() -> None:
    line = "--engine kernel --consumers 150 --objects 1000 --half-width 0.1 --seed 2 --json"
    told = json.loads(ran(*line.split()))
    assert told["throughput"] == pytest.approx(0.99, rel=0.01)
    assert told["converged"] is True
    groups = ("--groups", "50:2,50:1", "--access", "0.67,0.33", "--times", "uniform")
    assert "wait              6.8" in ran(*groups)
    assert "wait              7.2" in ran(*groups, "--model", "refined")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--algorithm", "manager"), "--algorithm is 'manager'; allowed: stochastic or central"),
        (("--model", "best"), "--model is 'best'; allowed: paper, refined"),
        (("--consumers", "0"), "--consumers is 0"),
        (("--algorithm", "central", "--process", "1"), "--process is 1"),
        (("--algorithm", "central", "--buffers", "100000"), "--producers times --buffers"),
        (("--algorithm", "central", "--produce-rate", "100"), "--producers times --produce-rate"),
        (
            ("--groups", "50:2,50:1", "--access", "1,0", "--fan-out", "2"),
            "--fan-out is 2; allowed: more",
        ),
    ],
    ids=" ".join,
)
def test_what_can_not_be_had_is_refused_by_name(arguments: tuple[str, ...], named: str) -> None:
    with pytest.raises(BadOption, match=named):
        ran(*arguments)
