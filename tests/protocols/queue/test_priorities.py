"""Numbered priorities: the upper bits of a position, and all else as in a fifo."""

from random import Random

import pytest
from alone import Alone
from cluster_bench import ClusterBench
from counted import Steps
from nodes_bench import Nodes
from test_full_disk import FEW
from test_full_disk import alone as full_alone

from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Duration, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import (
    Describe,
    Get,
    Open,
    Peek,
    PriorityRun,
    PublishStaged,
    Purge,
    Put,
    PutDone,
    Select,
    Settle,
)
from snowmelt.protocols.queue.api.labels import Labels, pack, unpack
from snowmelt.protocols.queue.api.settings import QueueSettings, differences
from snowmelt.protocols.queue.state.blocks import STAGED
from snowmelt.protocols.queue.state.records import changed
from snowmelt.protocols.queue.state.state import QueueState

ONE = 1 << 48
"""Where positions of priority 1 begin."""


def put(number, *rows, producer="p", **more):
    """Bodies by priority."""
    batch = Batch.of([body.encode() for _, bodies in rows for body in bodies])
    runs = tuple(PriorityRun(priority, len(bodies)) for priority, bodies in rows)
    blob = bytes(batch.offsets), bytes(batch.blob)
    return Put("q", producer, number, *blob, runs=runs, **more)


def shown(parts):
    """Bodies, and at which priority and number they stand."""
    return [
        (place >> 48, place % ONE, bytes(body).decode())
        for part in parts
        for place, body in enumerate(Batch(part.offsets, part.blob), start=part.start)
    ]


def got(alone, count=100):
    return alone.said(Get("q", count, 1 << 20, Duration(0)))


@pytest.fixture
def alone():
    return Alone.of(priorities=3)


# --- order ----------------------------------------------------------------------------------------


def test_the_most_urgent_come_first_and_each_priority_is_a_fifo(alone):
    assert alone.said(put(1, (2, "ab"))).where == [Interval(2 * ONE, 2 * ONE + 2)]
    alone.said(put(2, (0, "c")))
    alone.said(put(3, (1, "d"), (2, "e")))
    alone.said(put(4, (0, "f")))
    told = [(0, 0, "c"), (0, 1, "f"), (1, 0, "d"), (2, 0, "a"), (2, 1, "b"), (2, 2, "e")]
    assert shown(alone.said(Peek("q", 100, 1 << 20)).parts) == told
    assert shown(alone.said(Peek("q", 2, 1 << 20, ONE)).parts) == told[2:4]
    for _ in range(2):
        assert shown(got(alone).parts) == told
        alone.killed()


def test_what_goes_back_is_next_at_its_own_place(alone):
    alone.said(put(1, (1, "ab"), (2, "c")))
    leased = got(alone, 2)
    alone.said(put(2, (0, "u"), (1, "d")))
    alone.said(Settle("q", leased.token, back=(Interval(ONE, ONE + 2),), reason="broken"))
    assert [body for _, _, body in shown(got(alone).parts)] == ["u", "a", "b", "d", "c"]


def test_a_get_that_waits_has_the_most_urgent_of_what_comes(alone):
    alone.ask(Get("q", 1, 1 << 20, seconds(10)))
    waits = alone.calls
    alone.ask(put(1, (0, "u"), (2, "a")))
    alone.flush()
    assert shown(alone.answers[waits].parts) == [(0, 0, "u")]


# --- one call -------------------------------------------------------------------------------------


def test_one_call_comes_in_at_one_moment_and_is_one_put(alone):
    first = put(7, (0, "a"), (1, "bc"), (2, "d"))
    others = ONE, ONE + 2, 2 * ONE, 2 * ONE + 1
    assert alone.said(first) == PutDone(0, 1, 1, True, others=others)
    for _ in range(2):
        assert alone.said(first) == PutDone(0, 1, 1, True, repeated=True, others=others)
        alone.killed()
    token = got(alone).token
    alone.said(Settle("q", token, done=(Interval(0, 1), Interval(ONE, ONE + 2))))
    assert alone.said(first).copies == 1  # one of it is there
    alone.said(Settle("q", token, done=(Interval(2 * ONE, 2 * ONE + 1),)))
    assert alone.said(first) == PutDone(0, 1, 0, True, repeated=True, others=others)


def test_what_was_not_safe_is_not_half_there_after_a_crash(alone):
    alone.ask(put(1, (0, "a"), (2, "b")))
    assert alone.calls not in alone.answers
    alone.killed()
    assert alone.said(Describe("q")).ready_of == (0, 0, 0)
    assert alone.said(put(1, (0, "a"), (2, "b"))).repeated is False


def test_headers_go_with_each_priority_and_labels_with_each_item(alone):
    labels = pack(Labels({"of": "all"}, headers=({"own": "a"}, None, {"own": "c"})))
    alone.said(put(1, (0, "a"), (1, "bc"), headers=labels))
    alone.said(put(2, (0, "d"), (1, "e"), headers=pack(Labels({"of": "all"}))))
    told = [
        (bytes(body).decode(), unpack(part.headers).of(at)[1])
        for part in got(alone).parts
        for at, body in enumerate(Batch(part.offsets, part.blob))
    ]
    assert told == [
        ("a", {"of": "all", "own": "a"}),
        ("d", {"of": "all"}),
        ("b", {"of": "all"}),
        ("c", {"of": "all", "own": "c"}),
        ("e", {"of": "all"}),
    ]


def test_headers_count_with_each_priority():
    alone = Alone.of(priorities=2, bytes_max=24)
    headers = b"\x81\xa4from\xa4shop"  # 11 bytes
    assert alone.said(put(1, (0, "a"), (1, "b"), headers=headers)).stop == 1
    assert alone.said(Describe("q")).bytes == 24
    alone.said(Purge("q"))
    assert "24 bytes" in alone.said(put(2, (0, "a"), (1, "bc"), headers=headers)).text


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ((PriorityRun(3, 2),), "priority is 3; allowed: 0 to 2"),
        ((PriorityRun(-1, 2),), "priority is -1; allowed: 0 to 2"),
        (
            (PriorityRun(1, 1), PriorityRun(0, 1)),
            "priorities are [1, 0]; allowed: each once, the least first",
        ),
        (
            (PriorityRun(1, 1), PriorityRun(1, 1)),
            "priorities are [1, 1]; allowed: each once, the least first",
        ),
        (
            (PriorityRun(0, 2), PriorityRun(1, 0)),
            "runs of [2, 0] items; allowed: some in each, and 2 together",
        ),
        ((PriorityRun(0, 1),), "runs of [1] items; allowed: some in each, and 2 together"),
    ],
)
def test_what_is_of_no_priority_there_is_refused(alone, runs, why):
    batch = Batch.of([b"a", b"b"])
    wrong = Put("q", "p", 1, bytes(batch.offsets), bytes(batch.blob), runs=runs)
    assert alone.said(wrong) == Declined("BadOption", why)
    assert alone.said(Describe("q")).tails == (0, 0, 0)


def test_a_fifo_has_one():
    alone = Alone.of()
    assert alone.said(put(1, (0, "a"))) == PutDone(0, 1, 1, True)
    assert alone.said(put(2, (1, "a"))).text == "priority is 1; allowed: 0 to 0"
    status = alone.said(Describe("q"))
    assert (status.tail, status.tails, status.ready_of) == (1, (), ())


# --- the queue ------------------------------------------------------------------------------------


def test_how_many_there_may_be():
    assert QueueSettings(priorities=256).checked().priorities == 256
    for wrong in (-1, 257):
        with pytest.raises(BadOption, match=f"priorities is {wrong}; allowed: 0 to 256"):
            QueueSettings(priorities=wrong).checked()


def test_how_many_there_are_is_said_once_for_all(alone):
    assert differences(QueueSettings(priorities=3), QueueSettings()) == "priorities=3, asked 1"
    told = alone.said(Open("q", QueueSettings(priorities=2)))
    assert "priorities=3, asked 2" in told.text


def test_a_status_counts_by_priority(alone):
    alone.said(put(1, (0, "ab"), (2, "cde")))
    got(alone, 1)
    status = alone.said(Describe("q"))
    assert (status.tail, status.tails, status.ready_of) == (5, (2, 0, 3), (1, 0, 3))


def test_the_item_of_a_rank_or_at_a_share_is_shown(alone):
    alone.said(put(1, (0, "ab"), (2, "cde")))

    def at(**ask):
        return [body for _, _, body in shown(alone.said(Select("q", **ask)).parts)]

    assert [at(rank=rank) for rank in (1, 2, 3, 5, 6)] == [["a"], ["b"], ["c"], ["e"], []]
    assert [at(share=share) for share in (0.0, 0.2, 0.21, 1.0)] == [["a"], ["a"], ["b"], ["e"]]
    assert alone.said(Select("q", share=1.5)).text == "share is 1.5; allowed: 0 to 1"
    got(alone)
    assert at(rank=1) == []


def test_what_was_never_given_can_not_be_acknowledged(alone):
    alone.said(put(1, (0, "abc"), (1, "d")))
    token = got(alone, 2).token
    for never in (ONE + 1, 2 * ONE, 3 * ONE, 3):
        told = alone.said(Settle("q", token, done=(Interval(0, 1), Interval(never, never + 1))))
        assert told.text == f"position {never} is not held under lease {token}"
    assert alone.said(Settle("q", token, done=(Interval(0, 2),))).left == 0


def test_what_is_urgent_does_not_touch_what_is_not(alone):
    """However much of it there is: neither its records, nor the bodies."""
    for number in range(300):
        alone.said(put(number, (2, "x")))
    state = alone.node._terms.leaders["q"].state
    assert state.batches.blocks == 3
    for number in range(300, 450):
        alone.ask(put(number, (0, "u")))
    blocks = [int.from_bytes(key[1:]) for key in state.changed if key[:1] == b"b"]
    assert blocks
    assert max(blocks) < ONE
    alone.flush()
    assert state.batches.blocks == 5


def steps_of_puts(behind):
    """How many steps of the interpreter 300 urgent puts take before so many others."""
    state = QueueState(QueueSettings(priorities=3))
    for _ in range(behind):
        state.put(1, 10, term=1, priority=2)
    changed(state)
    with Steps() as steps:
        for _ in range(300):
            state.put(1, 10, term=1)
            changed(state)
    return steps.count


def test_what_is_urgent_costs_the_same_however_much_is_not():
    assert steps_of_puts(20_000) < 1.1 * steps_of_puts(1)


# --- staging --------------------------------------------------------------------------------------


def test_what_is_staged_keeps_its_priorities(alone):
    some = [
        alone.said(put(number, *rows, hold=seconds(60)))
        for number, rows in enumerate([((0, "a"), (2, "bc")), ((0, "d"), (1, "e"))])
    ]
    assert [(one.first, one.stop) for one in some] == [
        (STAGED, STAGED + 3),
        (STAGED + 3, STAGED + 5),
    ]
    alone.said(put(9, (0, "u"), (2, "v")))
    alone.killed()
    done = alone.said(PublishStaged("q", "load", 1, (some[1], some[0])))
    assert done.where == [
        Interval(1, 3),
        Interval(ONE, ONE + 1),
        Interval(2 * ONE + 1, 2 * ONE + 3),
    ]
    assert alone.said(PublishStaged("q", "load", 1, tuple(some))).where == done.where
    told = shown(got(alone).parts)
    assert [body for _, _, body in told] == ["u", "d", "a", "e", "v", "b", "c"]


def test_no_batch_is_published_twice_whatever_receipts_name(alone):
    one, two = [alone.said(put(at, (0, "a"), (1, "b"), hold=seconds(60))) for at in (1, 2)]
    both = type(one)(one.stream, one.first, two.stop, 4)
    part = type(one)(one.stream, one.first, one.stop - 1, 1)
    for wrong in ((one, one), (both, two), (both, part)):
        assert alone.said(PublishStaged("q", "load", 1, wrong)).error == "NotStaged"
    assert alone.said(PublishStaged("q", "load", 2, (one, two))).where == [
        Interval(0, 2),
        Interval(ONE, ONE + 2),
    ]


# --- several nodes --------------------------------------------------------------------------------


def test_the_next_leader_goes_on_in_every_priority():
    nodes = Nodes(3)
    nodes.open(replicas=3, priorities=3)
    nodes.put([b"a", b"b"], 1, runs=(PriorityRun(0, 1), PriorityRun(2, 1)))
    leased = nodes.get(1)
    master = nodes.status().leader
    nodes.view(*[name for name in nodes.nodes if name != master])
    other = next(name for name in nodes.nodes if name != master)
    told = nodes.ask(put(2, (0, "c"), (1, "d"), (2, "e")), other)
    assert [one.start for one in told.where] == [1, ONE, 2 * ONE + 1]
    nodes._asked(Settle("q", leased.token, back=(Interval(0, 1),)), other, 10_000)
    nodes.pass_time(1)
    told = nodes.ask(Get("q", 9, 1 << 20, seconds(0)), other)
    assert [body for _, _, body in shown(told.parts)] == ["a", "c", "d", "b", "e"]


def test_positions_that_lingered_are_given_again_in_no_priority():
    bench = ClusterBench(1)
    bench.open(linger=seconds(10), priorities=3)
    bench.put("n1", 1)
    bench.run(12)  # this one is on the disk
    bench.slots[NodeId("n1")].held = True
    lost = bench.ask("n1", put(2, (0, "a"), (1, "b")))
    bench.kill("n1")
    bench.slots[NodeId("n1")].held = False
    bench.start("n1")
    bench.view()
    again = bench.ask("n1", put(3, (0, "a"), (1, "b"), (2, "c")))
    least = [one.stop for one in lost.where]
    assert all(one.start >= stop for one, stop in zip(again.where, least, strict=False))
    assert again.where[2].start > 2 * ONE  # perhaps some were given there, too


def test_a_put_that_finds_no_room_on_the_disk_leaves_nothing_in_any_priority():
    bench = full_alone(priorities=2)
    for number in range(FEW - 1):
        bench.ask("n1", put(number, (0, "a")))
    assert bench.ask("n1", put(9, (0, "b"), (1, "c")), within=6).error == "DiskFull"
    leased = bench.get("n1", 100)
    assert {body for _, _, body in shown(leased.parts)} == {"a"}
    bench.ask("n1", Settle("q", leased.token, done=(Interval(0, FEW - 1),)))
    assert bench.ask("n1", put(9, (0, "b"), (1, "c"))).repeated is False, "its number is free"
    assert [body for _, _, body in shown(bench.get("n1", 100).parts)] == ["b", "c"]


# --- any story ------------------------------------------------------------------------------------


class Model:
    """What a queue has, by priority and in the order in which it came."""

    def __init__(self):
        self.ready, self.leased = [], {}
        self._came = 0

    def put(self, rows):
        for priority, bodies in rows:
            for body in bodies:
                self._came += 1
                self.ready.append((priority, self._came, body))
        self.ready.sort()

    def take(self, token, count):
        self.leased[token], self.ready = self.ready[:count], self.ready[count:]

    def back(self, items):
        self.ready = sorted([*self.ready, *items])


def rows_of(chance, number):
    """Some bodies of some priorities."""
    ranks = sorted(chance.sample(range(4), chance.randint(1, 4)))
    rows = [(rank, chance.randint(1, 3)) for rank in ranks]
    return [(rank, [f"{number}.{rank}.{at}" for at in range(count)]) for rank, count in rows]


@pytest.mark.parametrize("seed", range(8))
def test_it_is_as_a_list_that_is_sorted_would_have_it(seed):
    """Puts, publications, gets, what is done or goes back, and power that fails."""
    chance, model, staged = Random(seed), Model(), {}
    alone = Alone.of(priorities=4, deliveries_max=1_000)
    for number in range(250):
        token = chance.choice(list(model.leased)) if model.leased else 0
        match chance.choice(("put", "put", "stage", "publish", "get", "get", "end", "end", "fall")):
            case "put":
                rows = rows_of(chance, number)
                told = alone.said(put(number, *rows))
                assert [one.size for one in told.where] == [len(bodies) for _, bodies in rows]
                model.put(rows)
            case "stage":
                rows = rows_of(chance, number)
                staged[alone.said(put(number, *rows, hold=seconds(9_999)))] = rows
            case "publish":
                some = chance.sample(list(staged), min(len(staged), 2))
                alone.said(PublishStaged("q", "load", number, tuple(some)))
                for one in some:
                    model.put(staged.pop(one))
            case "get":
                count = chance.randint(1, 9)
                leased = got(alone, count)
                rows = [(rank, body) for rank, _, body in shown(leased.parts)]
                assert rows == [(rank, body) for rank, _, body in model.ready[:count]]
                if rows:
                    places = [(rank << 48) + at for rank, at, _ in shown(leased.parts)]
                    model.take((leased.token, tuple(places)), count)
            case "end" if token:
                items, cut = model.leased.pop(token), chance.randint(0, len(token[1]))
                each = tuple(Interval(at, at + 1) for at in token[1])
                settle = Settle("q", token[0], done=each[:cut], back=each[cut:])
                assert alone.said(settle).left == 0
                model.back(items[cut:])
            case "fall" if chance.random() < 0.3:
                alone.killed()
                for items in model.leased.values():
                    model.back(items)
                model.leased.clear()
    status, ranks = alone.said(Describe("q")), [rank for rank, _, _ in model.ready]
    assert status.ready_of == tuple([ranks.count(rank) for rank in range(4)])
    for rank, (_, _, body) in enumerate(model.ready[:20], start=1):
        assert [one[2] for one in shown(alone.said(Select("q", rank)).parts)] == [body]
