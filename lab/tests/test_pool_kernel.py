"""The compiled experiment: reference figures, closed forms, the machines and the pseudo-code."""

import json
import os
import subprocess
import sys
from functools import partial
from math import exp
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import msgspec
import pytest

pytest.importorskip("numba")

import numpy as np

import commands
from pseudo_code import PseudoCode
from snowmelt.core.errors import BadOption
from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool import machine
from snowmelt_lab.pool.batches import Batches, half_width
from snowmelt_lab.pool.kernel import central, counts, queue_manager, run, stochastic
from snowmelt_lab.pool.kernel.access import drawn, joined, lists
from snowmelt_lab.pool.kernel.chance import (
    CONSTANT,
    EXPONENTIAL,
    UNIFORM,
    bits,
    exponential,
    fraction,
    seeded,
    spent,
)
from snowmelt_lab.pool.kernel.compiled import compiled, forget_stale
from snowmelt_lab.pool.kernel.future import future, set_time
from snowmelt_lab.pool.measures import Measured
from snowmelt_lab.pool.options import Algorithm, PoolOptions, Times, groups_of

WHOLE = {"objects": 600_000, "half_width": 0}
NEARLY_INSTANT = 1_000.0
"""The rate of a producer that is never waited for."""


def ran(**changed: Any) -> Measured:
    return run(PoolOptions(**{**WHOLE, **changed}))


# --- chance and time ------------------------------------------------------------------------------


@compiled
def _fill(kind: int, values: Any, state: Any) -> None:
    for at in range(len(values)):
        values[at] = spent(kind, 1.0, state)


def values(kind: int, count: int = 400_000) -> Any:
    drawn_values = np.zeros(count)
    _fill(kind, drawn_values, seeded(1))
    return drawn_values


def test_the_generator_is_xoshiro256_plus_plus() -> None:
    state = np.array([1, 2, 3, 4], np.uint64)
    told = [int(bits(state)) for _ in range(3)]
    assert told == [41943041, 58720359, 3588806011781223]


def test_exponential_times_have_the_curve_of_exponential_times() -> None:
    found = values(EXPONENTIAL)
    for least in (0.01, 0.1, 0.5, 1, 2, 4, 7.5, 8, 10):
        tail = exp(-least)
        error = 4.5 * (tail * (1 - tail) / len(found)) ** 0.5
        assert (found > least).mean() == pytest.approx(tail, abs=error)
    assert found.mean() == pytest.approx(1, abs=0.007)
    assert found.std() == pytest.approx(1, abs=0.01)
    assert abs(np.corrcoef(found[:-1], found[1:])[0, 1]) < 0.007


def test_uniform_times_lie_within_a_third_of_their_mean_and_constant_ones_do_not_scatter() -> None:
    found = values(UNIFORM)
    assert 2 / 3 <= found.min() < 0.667
    assert 1.333 < found.max() <= 4 / 3
    assert found.mean() == pytest.approx(1, abs=0.001)
    assert set(values(CONSTANT, 10).tolist()) == {1.0}


def test_what_is_next_is_next() -> None:
    chance = Random(1)
    when, who = future(37)
    times = [float("inf")] * 37
    for _ in range(2_000):
        player = chance.randrange(37)
        times[player] = chance.choice([float("inf"), chance.random()])
        set_time(when, who, player, times[player])
        assert when[1] == min(times)
        assert when[1] == float("inf") or times[who[1]] == when[1]


def test_probes_go_where_the_weights_say() -> None:
    weights = [0.5, 0.0, 3.0, 1.5, 5.0]
    access = joined([([4, 3, 2, 1, 0], weights)], consumers=2)
    state = seeded(3)
    probes = [drawn(access, 1, state) for _ in range(50_000)]
    for place, weight in enumerate(weights):
        assert probes.count(4 - place) / 50_000 == pytest.approx(weight / 10, abs=0.01)


def test_a_consumer_that_could_probe_nobody_is_refused() -> None:
    options = PoolOptions(
        producers=4,
        consumers=40,
        fan_out=1,
        groups=groups_of("2:1,2:1"),
        access=AccessKind.WEIGHTED,
        shares=(1.0, 0.0),
    )
    with pytest.raises(BadOption, match="somebody to probe"):
        lists(options)


# --- reference figures and closed forms -----------------------------------------------------------


@pytest.mark.parametrize(
    ("consumers", "max_hops", "throughput", "wait", "probes"),
    [
        (100, 1, 0.68, 46.8, 1.0),
        (100, 2, 0.888, 12.6, 1.277),
        (100, 3, 0.932, 7.2, 1.453),
        (100, 5, 0.960, 4.25, 1.68),
        (100, 10, 0.969, 3.15, 1.89),
        (200, 3, 0.996, 100.6, 2.32),
    ],
)
def test_the_kernel_reaches_the_papers_reference_figures(
    consumers: int, max_hops: int, throughput: float, wait: float, probes: float
) -> None:
    measured = ran(consumers=consumers, max_hops=max_hops, objects=1_500_000)
    assert measured.throughput == pytest.approx(throughput, rel=0.01)
    assert measured.wait_mean == pytest.approx(wait, rel=0.02, abs=measured.wait_ci95)
    assert measured.hops_mean == pytest.approx(probes, rel=0.02)


@pytest.mark.parametrize(("load", "buffers"), [(0.5, 3), (1.0, 4), (2.0, 2)])
def test_one_of_each_at_no_distance_is_a_queue_with_one_server(load: float, buffers: int) -> None:
    """Objects stored and in use are born at the produce rate, while there is room, and die."""
    measured = ran(
        producers=1, consumers=1, buffers=buffers, transit=0, max_hops=1, consume_rate=0.01 * load
    )
    weights = [load**-count for count in range(buffers + 2)]
    likely = [weight / sum(weights) for weight in weights]
    rate = 0.01 * load * (1 - likely[0])
    assert measured.throughput == pytest.approx(rate, rel=0.01)
    assert measured.wait_mean == pytest.approx(likely[0] / rate, rel=0.02)
    assert measured.consumer_busy == pytest.approx(1 - likely[0], rel=0.01)
    for state, share in zip(range(-1, buffers + 1), likely, strict=True):
        assert measured.states[str(state)] == pytest.approx(share, abs=0.006)
    assert measured.producer_blocked == pytest.approx(likely[-1], abs=0.006)
    assert measured.request_blocked == measured.probe_empty


@pytest.mark.parametrize("algorithm", list(Algorithm), ids=lambda one: one.value)
def test_constant_times_at_no_distance_are_exact(algorithm: Algorithm) -> None:
    measured = ran(
        algorithm=algorithm,
        producers=1,
        consumers=1,
        transit=0,
        consume_rate=0.02,
        times=Times.CONSTANT,
        consume_times=Times.CONSTANT,
        objects=2_000,
    )
    assert measured.throughput == pytest.approx(0.01, rel=1e-9)
    assert measured.wait_mean == pytest.approx(50, rel=1e-9)
    assert measured.wait_ci95 == pytest.approx(0, abs=1e-6)
    assert measured.consumer_busy == pytest.approx(0.5, rel=1e-9)


@pytest.mark.parametrize("process", [0.5, 3.0])
def test_a_producer_that_needs_time_for_requests_is_a_repairman(process: float) -> None:
    """Seven consumers, one producer that always has an object: only its hands are short."""
    think, consumers = 10.0 + 2.0, 7
    weights = [1.0]
    for broken in range(consumers):
        weights.append(weights[-1] * (consumers - broken) * process / think)
    rate = (1 - weights[0] / sum(weights)) / process
    measured = ran(
        producers=1,
        consumers=consumers,
        buffers=1_000,
        produce_rate=NEARLY_INSTANT,
        consume_rate=0.1,
        process=process,
        objects=400_000,
    )
    assert measured.throughput == pytest.approx(rate, rel=0.01)
    assert measured.wait_mean == pytest.approx(consumers / rate - 10, rel=0.02)


@pytest.mark.parametrize("algorithm", [Algorithm.CENTRAL, Algorithm.MANAGER])
def test_a_broker_deals_with_two_messages_an_object(algorithm: Algorithm) -> None:
    measured = ran(algorithm=algorithm, consumers=200, process=1.0, objects=200_000)
    assert measured.throughput == pytest.approx(0.5, rel=0.01)
    freed = ran(algorithm=algorithm, consumers=200, process=0.1, objects=200_000)
    assert freed.throughput > 0.95


# --- beside the machines and the pseudo-code ------------------------------------------------------

FAST_AND_SLOW = groups_of("4:6,16:1")
SMALL = {"producers": 20, "consumers": 25}


@pytest.mark.parametrize(
    "changed",
    [
        {"consumers": 10, "max_hops": 2},
        {"max_hops": 3},
        {"algorithm": Algorithm.CENTRAL, "buffers": 1},
        {"algorithm": Algorithm.CENTRAL, "consumers": 12},
        {"algorithm": Algorithm.MANAGER, "buffers": 1},
        {"algorithm": Algorithm.MANAGER, "consumers": 12, "transit": 20},
        {"groups": FAST_AND_SLOW, "access": AccessKind.WEIGHTED, "shares": (0.6, 0.4)},
        {"fan_out": 2, "max_hops": 2},
        {"times": Times.UNIFORM, "consume_times": Times.CONSTANT, "consumers": 20},
    ],
    ids=str,
)
def test_the_kernel_does_what_the_machines_do(changed: dict[str, Any]) -> None:
    options = PoolOptions(**{**SMALL, **WHOLE, **changed})
    measured = run(msgspec.structs.replace(options, objects=400_000))
    slow = machine.run(msgspec.structs.replace(options, objects=10_000))
    assert slow.wait_ci95 is not None
    assert measured.wait_ci95 is not None
    error = 1.3 * (slow.wait_ci95**2 + measured.wait_ci95**2) ** 0.5
    assert measured.wait_mean == pytest.approx(slow.wait_mean, abs=error)
    assert measured.throughput == pytest.approx(slow.throughput, rel=0.04)
    assert measured.hops_mean == pytest.approx(slow.hops_mean, rel=0.03)
    assert measured.producer_blocked == pytest.approx(slow.producer_blocked, abs=0.03)
    assert measured.request_blocked == pytest.approx(slow.request_blocked, abs=0.06)
    assert measured.consumer_busy == pytest.approx(slow.consumer_busy, abs=0.03)
    assert measured.messages_per_object == pytest.approx(slow.messages_per_object, rel=0.03)
    kinds = {kind for kind in slow.messages if kind not in ("SettleLoan", "LoanSettled")}
    assert measured.messages.keys() == kinds
    for state, share in measured.states.items():
        assert slow.states.get(state, 0.0) == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize(("consumers", "max_hops", "buffers"), [(8, 2, 2), (12, 3, 1), (20, 1, 3)])
def test_the_kernel_does_what_the_pseudo_code_does(
    consumers: int, max_hops: int, buffers: int
) -> None:
    options = PoolOptions(
        producers=12, consumers=consumers, max_hops=max_hops, buffers=buffers, **WHOLE
    )
    measured = run(options)
    throughput, wait, probes = PseudoCode(msgspec.structs.replace(options, objects=70_000)).run()
    assert measured.throughput == pytest.approx(throughput, rel=0.015)
    assert measured.wait_mean == pytest.approx(wait, rel=0.05)
    assert measured.hops_mean == pytest.approx(probes, rel=0.015)


def test_whoever_is_first_in_line_is_served_first() -> None:
    pool = stochastic.pool(PoolOptions(producers=2, consumers=12, max_hops=1, transit=0.1))
    longest = 0
    for _ in range(300):
        before = [in_line(pool, producer) for producer in range(2)]
        stochastic.advance(pool, 1, counts.row())
        for producer, line in enumerate(before):
            now = in_line(pool, producer)
            left = [consumer for consumer in line if consumer not in now]
            assert left == line[: len(left)]
            assert now[: len(line) - len(left)] == line[len(left) :]
            longest = max(longest, len(line))
    assert longest > 3


@pytest.mark.parametrize("engine", [stochastic, central, queue_manager])
def test_nobody_ever_has_more_than_its_places(engine: Any) -> None:
    pool = engine.pool(PoolOptions(producers=3, consumers=2, buffers=4))
    fullest = 0
    for _ in range(2_000):
        engine.advance(pool, 1, counts.row())
        assert pool.stock.max() <= pool.buffers
        if engine is central:
            assert pool.stored.sum() <= pool.places == 12
            fullest = max(fullest, pool.stored.sum() / pool.places)
        fullest = max(fullest, pool.stock.max() / pool.buffers)
    assert fullest == 1


def in_line(pool: stochastic.Pool, producer: int) -> list[int]:
    line: list[int] = []
    for _ in range(max(0, -pool.stock[producer])):
        line.append(int(pool.behind[line[-1]] if line else pool.first[producer]))
    return line


@pytest.mark.parametrize("algorithm", list(Algorithm), ids=lambda one: one.value)
def test_the_shares_of_time_and_the_counts_add_up(algorithm: Algorithm) -> None:
    measured = ran(algorithm=algorithm, **SMALL, objects=200_000, process=0.05)
    assert measured.throughput == pytest.approx(
        0.01 * 20 * (1 - measured.producer_blocked), rel=0.01
    )
    assert measured.throughput == pytest.approx(0.01 * 25 * measured.consumer_busy, rel=0.01)
    round_trip = measured.wait_mean + 1 / 0.01
    assert measured.throughput * round_trip == pytest.approx(25, rel=0.005)
    if measured.states:
        assert sum(measured.states.values()) == pytest.approx(1)
        assert measured.states.get("5", 0.0) == pytest.approx(measured.producer_blocked, abs=1e-9)


# --- intervals, ends and seeds --------------------------------------------------------------------


def test_a_run_ends_when_the_wait_is_known_as_well_as_was_asked_for() -> None:
    early = ran(consumers=50, half_width=0.02)
    assert early.objects < 300_000
    assert early.wait_ci95 is not None
    assert early.wait_ci95 <= 0.02 * early.wait_mean
    assert ran(consumers=50, half_width=0).objects == 600_000
    assert ran(consumers=50, half_width=0.00001, objects=300_000).objects == 300_000


@pytest.mark.parametrize("consumers", [12, 20])
def test_nine_intervals_of_ten_hold_the_long_runs_mean(consumers: int) -> None:
    options = PoolOptions(producers=20, consumers=consumers, objects=20_000, half_width=0.05)
    long = run(msgspec.structs.replace(options, objects=2_000_000, half_width=0))
    inside = 0
    for seed in range(100, 180):
        short = run(msgspec.structs.replace(options, seed=seed))
        assert short.wait_ci95 is not None
        inside += abs(short.wait_mean - long.wait_mean) <= short.wait_ci95
    assert inside >= 70  # of 80; 76 are expected


def test_means_that_depend_on_each_other_have_a_wider_interval() -> None:
    chance = Random(1)
    inside = 0
    for _ in range(300):
        value, means = 0.0, []
        for _ in range(40):
            value = 0.5 * value + chance.gauss(0, 1)
            means.append(value)
        half = half_width(means)
        assert half is not None
        inside += abs(mean(means)) <= half
    assert inside >= 260


def test_a_few_batches_are_not_believed() -> None:
    batches = Batches(100)
    for value in (1.0, 1.001) * 9:
        batches.add([value])
    assert not batches.narrow(lambda row: row[0], 0.5)
    batches.add([1.0])
    batches.add([1.001])
    assert batches.narrow(lambda row: row[0], 0.5)
    climbing = Batches(100)
    for value in range(1_000, 1_030):
        climbing.add([float(value)])
    assert not climbing.narrow(lambda row: row[0], 0.5)


@pytest.mark.parametrize("algorithm", list(Algorithm), ids=lambda one: one.value)
def test_the_same_seed_is_the_same_life_and_another_is_not(algorithm: Algorithm) -> None:
    lives = [
        msgspec.structs.replace(ran(algorithm=algorithm, objects=2_000, seed=seed), seconds=0)
        for seed in (1, 1, 2)
    ]
    assert lives[0] == lives[1]
    assert lives[0].wait_mean != lives[2].wait_mean


def test_few_objects_give_no_interval() -> None:
    measured = ran(objects=50)
    assert measured.objects == 50
    assert measured.wait_ci95 is None
    assert measured.ci95 == {}


# --- what is compiled, and the command ------------------------------------------------------------


def test_what_was_compiled_before_a_source_changed_is_forgotten(tmp_path: Path) -> None:
    kept = tmp_path / "__pycache__"
    kept.mkdir()
    for name, at in (("old.nbi", 100), ("new.nbi", 300)):
        (kept / name).touch()
        os.utime(kept / name, (at, at))
    (tmp_path / "source.py").touch()
    os.utime(tmp_path / "source.py", (200, 200))
    forget_stale(tmp_path)
    assert [one.name for one in kept.iterdir()] == ["new.nbi"]


def test_the_command_line_loads_no_compiler_before_it_is_needed() -> None:
    lines = (
        "import sys",
        "from snowmelt.cli.main import program",
        "program()",  # all commands
        "assert 'snowmelt_lab.cli.lab' in sys.modules",
        "assert 'numba' not in sys.modules",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, timeout=60)


told = partial(commands.ran, "pool")


def test_the_kernel_is_what_the_command_runs() -> None:
    measured = json.loads(told("--process", "0.1", "--consume-times", "uniform", "--json"))
    assert measured["objects"] > 200_000
    assert measured["ci95"]["wait_mean"] == measured["wait_ci95"]
    assert "producers have" in told("--objects", "1000", "--half-width", "0")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--access", "adaptive"), "--access is 'adaptive'; allowed: .* --engine machine"),
        (("--half-width", "2"), "--half-width is 2"),
        (("--process", "-1"), "--process is -1"),
        (("--algorithm", "manager", "--buffers", "100001"), "--buffers is 100001; allowed: 1 to"),
    ],
    ids=" ".join,
)
def test_what_the_kernel_can_not_do_is_refused_by_name(
    arguments: tuple[str, ...], named: str
) -> None:
    with pytest.raises(BadOption, match=named):
        told(*arguments)


def test_fractions_and_lone_times_are_in_their_range() -> None:
    state = seeded(9)
    assert all(0 <= fraction(state) < 1 for _ in range(1_000))
    assert all(exponential(state) >= 0 for _ in range(1_000))
