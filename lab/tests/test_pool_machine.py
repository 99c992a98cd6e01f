"""The pool's machines in a calm world: the paper's figures, the rivals' messages, bad options."""

import json
import os
import subprocess
import sys
from functools import partial
from random import Random
from statistics import mean, pstdev, stdev
from typing import Any

import msgspec
import pytest

import commands
from pseudo_code import PseudoCode
from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import SECOND, START, Duration, Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Received, Reply, Requested, Send
from snowmelt.protocols.pool.calls import (
    AwaitRoom,
    DescribePeer,
    Got,
    HasRoom,
    PoolGet,
    PoolPut,
    PoolReceipt,
)
from snowmelt.protocols.pool.messages import ObjectsLent
from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool import central, queue_manager
from snowmelt_lab.pool.cast import hands
from snowmelt_lab.pool.machine import World, run, spent
from snowmelt_lab.pool.measures import batch_means
from snowmelt_lab.pool.models import solve
from snowmelt_lab.pool.options import Algorithm, PoolOptions, Times, access_of, groups_of

LONG = Duration(1 << 60)
FAST_AND_SLOW = groups_of("2:9,18:1")


# --- the stochastic queue -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("consumers", "max_hops", "objects", "throughput", "wait", "probes"),
    [
        pytest.param(100, 3, 80_000, 0.932, 7.2, 1.453, marks=pytest.mark.soak),
        pytest.param(100, 1, 40_000, 0.68, 46.7, 1.0, marks=pytest.mark.soak),
        (200, 3, 20_000, 0.996, 100.3, 2.32),
    ],
)
def test_the_machines_reach_the_papers_reference_figures(
    consumers: int, max_hops: int, objects: int, throughput: float, wait: float, probes: float
) -> None:
    measured = run(PoolOptions(consumers=consumers, max_hops=max_hops, objects=objects))
    assert measured.throughput == pytest.approx(throughput, rel=0.02)
    assert measured.wait_mean == pytest.approx(wait, rel=0.06)
    assert measured.hops_mean == pytest.approx(probes, rel=0.02)
    assert measured.messages_per_object == pytest.approx(measured.hops_mean + 1, rel=0.01)
    assert measured.settle_per_object == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize(("consumers", "max_hops", "buffers"), [(8, 2, 2), (12, 3, 1), (20, 1, 3)])
def test_the_machines_do_what_the_pseudo_code_does(
    consumers: int, max_hops: int, buffers: int
) -> None:
    options = PoolOptions(
        producers=12, consumers=consumers, max_hops=max_hops, buffers=buffers, objects=30_000
    )
    measured = run(options)
    throughput, wait, probes = PseudoCode(msgspec.structs.replace(options, objects=200_000)).run()
    assert measured.throughput == pytest.approx(throughput, rel=0.015)
    assert measured.wait_mean == pytest.approx(wait, rel=0.05)
    assert measured.hops_mean == pytest.approx(probes, rel=0.015)


@pytest.mark.parametrize("consumers", [50, 100, 150, 200])
@pytest.mark.parametrize("max_hops", [1, 3])
def test_the_mended_model_is_within_a_percent_of_the_pseudo_code(
    consumers: int, max_hops: int
) -> None:
    options = PoolOptions(consumers=consumers, max_hops=max_hops, objects=150_000)
    answer = solve(options)
    throughput, _, probes = PseudoCode(options).run()
    assert answer.throughput == pytest.approx(throughput, rel=0.01)
    assert answer.hops_mean == pytest.approx(probes, rel=0.02)


@pytest.mark.parametrize(
    "changed",
    [
        {"algorithm": Algorithm.CENTRAL},
        {"algorithm": Algorithm.MANAGER},
        {"fan_out": 3},
        {"groups": FAST_AND_SLOW, "access": AccessKind.ADAPTIVE},
        {"groups": FAST_AND_SLOW, "access": AccessKind.WEIGHTED, "shares": (0.5, 0.5)},
        {"times": Times.CONSTANT, "transit": 0, "buffers": 1},
        {"times": Times.UNIFORM, "consumers": 1, "max_hops": 1},
    ],
    ids=str,
)
def test_invariants_hold_after_every_step(changed: dict[str, Any]) -> None:
    options = PoolOptions(**{"producers": 20, "consumers": 20, "objects": 500, **changed})
    assert run(options, checked=True).objects == 500


def test_what_the_world_sees_is_what_the_machines_count_themselves() -> None:
    world = World(PoolOptions(producers=8, consumers=10, max_hops=2))
    world.consume(2_000)
    tally = world.tally
    own = [
        effect.message
        for process in world._cast.producers
        for effect in process.handle(process.call(DescribePeer()), world.now)
        if isinstance(effect, Reply)
    ]
    assert tally.probes == sum(one.probes_met for one in own)
    assert tally.empty == sum(one.probes_empty for one in own)
    assert tally.sent[ObjectsLent] == sum(one.given for one in own)
    blocked = sum(one.blocked_seconds for one in own) * SECOND / 8 / world.now
    assert world.measured().producer_blocked == pytest.approx(blocked, abs=0.02)


def test_the_same_seed_is_the_same_life_and_another_is_not() -> None:
    options = PoolOptions(producers=5, consumers=7, objects=300)
    same = [msgspec.structs.replace(run(options), seconds=0) for _ in range(2)]
    assert same[0] == same[1]
    other = run(msgspec.structs.replace(options, seed=2))
    assert other.wait_mean != same[0].wait_mean


def test_the_same_seed_is_the_same_life_in_every_process() -> None:
    arguments = "lab pool --engine machine --producers 9 --fan-out 4 --objects 300 --json"
    told = []
    for hash_seed in ("1", "2"):
        program = [sys.executable, "-m", "snowmelt", *arguments.split()]
        ended = subprocess.run(
            program,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            timeout=60,
        )
        told.append({**json.loads(ended.stdout), "seconds": 0})
    assert told[0] == told[1]


def test_access_that_follows_the_rates_shortens_the_wait_and_need_not_be_told_them() -> None:
    options = PoolOptions(producers=20, consumers=20, groups=FAST_AND_SLOW, objects=8_000)
    uniform = run(options)
    split = run(msgspec.structs.replace(options, access=AccessKind.WEIGHTED, shares=(0.5, 0.5)))
    adaptive = run(msgspec.structs.replace(options, access=AccessKind.ADAPTIVE))
    assert split.wait_mean < 0.5 * uniform.wait_mean
    assert adaptive.wait_mean == pytest.approx(split.wait_mean, rel=0.2)


def test_adaptive_access_follows_when_the_rates_are_swapped() -> None:
    options = PoolOptions(
        producers=20, consumers=20, groups=FAST_AND_SLOW, access=AccessKind.ADAPTIVE
    )
    world = World(options)

    def wait(objects: int) -> float:
        world.measure_anew()
        world.consume(objects)
        return world.measured().wait_mean

    world.consume(2_000)
    before = wait(6_000)
    world.pace(options.rates[::-1])
    right_after = wait(200)
    world.consume(2_000)
    later = wait(6_000)
    assert right_after > 2 * before
    assert later < 1.5 * before


def test_a_consumer_with_a_small_fan_out_asks_no_one_else() -> None:
    dealt = hands(20, 30, 3, Random(1))
    assert all(len(set(hand)) == 3 for hand in dealt)
    known = [producer for hand in dealt for producer in hand]
    assert {known.count(producer) for producer in range(20)} <= {4, 5}
    assert len({tuple(sorted(hand)) for hand in dealt}) > 25
    assert hands(5, 2, 5, Random(1))[1] != []


# --- the rivals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "kinds"),
    [
        (Algorithm.CENTRAL, {"Deposit", "SlotReserved", "FetchObject", "FetchedObject"}),
        (Algorithm.MANAGER, {"Made", "FindProducer", "ProducerFound", "Take", "ObjectTaken"}),
    ],
)
def test_a_rival_sends_one_message_of_each_of_its_kinds_for_an_object(
    algorithm: Algorithm, kinds: set[str]
) -> None:
    options = PoolOptions(algorithm=algorithm, producers=3, consumers=4, buffers=2)
    world = World(options, checked=True)
    world.consume(3_000)
    counts = {kind.__name__: count for kind, count in world.tally.sent.items()}
    assert counts.keys() == kinds
    on_the_way = 3 * 2 + 4 + 1  # what the buffers hold and the consumers ask for
    for count in counts.values():
        assert 3_000 <= count <= 3_000 + on_the_way
    measured = run(msgspec.structs.replace(options, objects=3_000))
    assert measured.messages_per_object == pytest.approx(len(kinds), abs=0.02)
    assert measured.settle_per_object == 0


def put(*bodies: bytes) -> PoolPut:
    batch = Batch.of(bodies)
    return PoolPut(bytes(batch.offsets), bytes(batch.blob), LONG)


def called(number: int, body: Any) -> Requested[Any]:
    return Requested(OperationId(NodeId("program"), number), body)


def test_the_central_buffer_holds_no_more_than_its_places() -> None:
    producer = central.CentralProducer(NodeId("buffer"), promises=1)
    buffer = central.CentralBuffer(places=2, promised=1)
    sent, kept = producer.handle(called(1, put(b"one", b"other")), START)
    assert sent == Send("buffer", central.Deposit(sent.message.span, b"one"))
    assert kept.message.count == 1
    assert producer.handle(called(2, AwaitRoom(LONG)), START) == []

    promised = buffer.handle(Received(NodeId("p"), sent.message), START)
    assert promised == [Send("p", central.SlotReserved())]
    (room,) = producer.handle(Received(NodeId("buffer"), central.SlotReserved()), START)
    assert room.message == HasRoom()
    sent, _ = producer.handle(called(3, put(b"two")), START)
    assert buffer.handle(Received(NodeId("p"), sent.message), START) == []  # full: no promise

    given, promised = buffer.handle(Received(NodeId("c"), central.FetchObject()), START)
    assert (given.target, given.message.producer, given.message.blob) == ("c", "p", b"one")
    assert promised == Send("p", central.SlotReserved())
    buffer.check()


def test_a_deposit_beyond_the_places_of_the_buffer_breaks_its_invariant() -> None:
    buffer = central.CentralBuffer(places=1, promised=1)
    deposit = central.Deposit(central.first_object(put(b"one"), 0)[0], b"one")
    for _ in range(2):
        buffer.handle(Received(NodeId("p"), deposit), START)
    with pytest.raises(AssertionError):
        buffer.check()


def test_a_managed_object_stays_with_its_producer_until_it_is_taken() -> None:
    manager = queue_manager.QueueManager()
    producer = queue_manager.ManagedProducer(NodeId("manager"), buffers=1)
    consumer = queue_manager.ManagedConsumer(NodeId("manager"))
    (ask,) = consumer.handle(called(1, PoolGet(1, 1 << 20, LONG)), START)
    assert manager.handle(Received(NodeId("c"), ask.message), START) == []
    made, kept = producer.handle(called(1, put(b"one")), START)
    assert kept == Reply(OperationId(NodeId("program"), 1), PoolReceipt(1, kept.message.numbers))
    assert producer.handle(called(2, put(b"two")), START) == []  # no room yet
    (told,) = manager.handle(Received(NodeId("p"), made.message), START)
    assert told == Send("c", queue_manager.ProducerFound(NodeId("p")))
    (take,) = consumer.handle(Received(NodeId("manager"), told.message), START)
    taken, made, kept = producer.handle(Received(NodeId("c"), take.message), START)
    (got,) = consumer.handle(Received(NodeId("p"), taken.message), Instant(7))
    span = taken.message.span
    assert got.message == Got(NodeId("p"), 0, (span,), b"one", 1, Duration(7))
    for machine in (manager, producer, consumer):
        machine.check()


# --- measures -------------------------------------------------------------------------------------


def test_a_confidence_interval_is_as_wide_as_the_values_scatter() -> None:
    chance = Random(1)
    middles = []
    widths = []
    for _ in range(200):
        middle, width = batch_means([chance.expovariate(1) for _ in range(400)])
        middles.append(middle)
        widths.append(width)
    inside = sum(abs(one - 1) < width for one, width in zip(middles, widths, strict=True))
    assert 180 <= inside <= 198
    assert stdev(middles) == pytest.approx(400**-0.5, rel=0.2)


@pytest.mark.parametrize(
    ("times", "spread"),
    [(Times.EXPONENTIAL, 1.0), (Times.UNIFORM, 2 / 3 * 12**-0.5), (Times.CONSTANT, 0.0)],
)
def test_times_have_the_mean_asked_for_and_their_own_spread(times: Times, spread: float) -> None:
    draw = spent(times, Random(1))
    values = [draw(100.0) for _ in range(20_000)]
    assert mean(values) == pytest.approx(100, rel=0.02)
    assert pstdev(values) == pytest.approx(100 * spread, rel=0.03, abs=1e-9)


# --- the command ----------------------------------------------------------------------------------


ran = partial(commands.ran, "pool")


SMALL = ("--engine", "machine", "--producers", "4", "--consumers", "4", "--objects", "200")


@pytest.mark.parametrize("algorithm", ["stochastic", "central", "manager"])
def test_the_command_prints_one_json_object(algorithm: str) -> None:
    out = ran("--algorithm", algorithm, *SMALL, "--json")
    assert out.count("\n") == 1
    assert json.loads(out).keys() >= {
        "throughput",
        "wait_mean",
        "wait_ci95",
        "hops_mean",
        "producer_blocked",
        "probe_empty",
        "request_blocked",
        "messages_per_object",
        "objects",
        "seconds",
    }
    assert "messages" in ran("--algorithm", algorithm, *SMALL)


def test_the_command_takes_groups_access_and_fan_out() -> None:
    groups = ("--groups", "1:3,3:1", "--times", "uniform", "--seed", "3")
    told = json.loads(ran(*SMALL, *groups, "--access", "0.5,0.5", "--fan-out", "2", "--json"))
    assert told["objects"] == 200
    assert "load 100%" in ran(*SMALL, *groups, "--access", "adaptive")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--producers", "0"), "--producers is 0"),
        (("--consumers", "0"), "--consumers is 0"),
        (("--buffers", "0"), "--buffers is 0"),
        (("--max-hops", "0"), "--max-hops is 0"),
        (("--produce-rate", "0"), "--produce-rate is 0"),
        (("--produce-rate", "nan"), "--produce-rate is nan"),
        (("--consume-rate", "-1"), "--consume-rate is -1"),
        (("--transit", "-1"), "--transit is -1"),
        (("--objects", "0"), "--objects is 0"),
        (("--seed", "-1"), "--seed is -1"),
        (("--fan-out", "101"), "--fan-out is 101; allowed: 1 to 100"),
        (("--fan-out", "1", "--consumers", "50"), "--fan-out is 1; allowed: 2 to 100"),
        (("--fan-out", "-1"), "--fan-out is -1"),
        (("--groups", "50:2,40:1"), "--groups is 90; allowed: 100 producers"),
        (("--groups", "50:2,50:0"), "--groups is 0"),
        (("--groups", "fast"), "--groups is 'fast'"),
        (("--groups", "50:2,50:1", "--access", "0.6,0.3"), "sum to one"),
        (("--groups", "50:2,50:1", "--access", "1.5,-0.5"), "--access is 1.5"),
        (("--groups", "50:2,50:1", "--access", "1"), "a share for each group"),
        (("--access", "0.5,0.5"), "a share for each group"),
        (("--access", "often"), "--access is 'often'"),
        (("--access", "weighted"), "--access is 'weighted'"),
        (("--algorithm", "central", "--access", "adaptive"), "left out"),
        (("--algorithm", "manager", "--fan-out", "5"), "left out"),
        (("--algorithm", "magic"), "allowed: stochastic, central, manager"),
        (("--engine", "machine", "--process", "1"), "--process is 1.0; allowed: 0 with"),
        (("--engine", "machine", "--half-width", "0.1"), "does not end early"),
        (("--engine", "magic"), "--engine is 'magic'; allowed: kernel, machine"),
        (("--times", "normal"), "allowed: exponential, uniform, constant"),
        (("--consume-times", "normal"), "allowed: exponential, uniform, constant"),
    ],
    ids=" ".join,
)
def test_what_can_not_be_had_is_refused_by_name(arguments: tuple[str, ...], named: str) -> None:
    with pytest.raises(BadOption, match=named):
        ran(*arguments)


def test_shares_of_two_digits_are_scaled_to_one() -> None:
    kind, shares = access_of("0.67,0.33")
    options = PoolOptions(groups=groups_of("50:2,50:1"), access=kind, shares=shares)
    assert sum(options.weights) == pytest.approx(1)
    assert mean(options.rates) == pytest.approx(options.produce_rate)
