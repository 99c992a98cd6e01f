"""Items put one by one through several nodes: small records, exact sizes, and nothing mixed up."""

from random import Random

import pytest
from master_bench import KEEPERS, OTHER, OWN, THIRD
from nodes_bench import Nodes
from whole_records import records, restored

from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.fifo.extents import Run
from snowmelt.protocols.fifo.limits import Limits
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.fifo.spans import spans_of

STREAMS = (OWN, OTHER, THIRD)
SMALL = Limits(run_items=50, run_strips=7, run_lanes=2, drop_items=4)


class Mixed:
    """A queue into which streams put in turns; a plain list says where each item lies."""

    def __init__(self, seed: int, limits: Limits, bytes_max: int = 0) -> None:
        self.chance = Random(seed)
        self.queue = Queue("q", QueueSettings(replicas=3, bytes_max=bytes_max), limits)
        self.model: list[tuple[str, int, int]] = []
        self.put_of: list[tuple[int, int]] = []
        self._next = dict.fromkeys(STREAMS, 0)

    def put(self, count: int, each: int) -> None:
        stream = self.chance.choice(STREAMS)
        if self.chance.random() < 0.05:
            self._next[stream] += 1  # a number that was refused
        first = self._next[stream]
        where = self.queue.admit(stream, first, count, count * each, KEEPERS)
        self.queue.show(where)
        self._next[stream] = first + count
        self.model += [(stream, first + at, each) for at in range(count)]
        self.put_of += [(where.start, where.stop)] * count

    def lies(self, position: int) -> tuple[str, int]:
        ((span, _),) = spans_of(self.queue, None, Interval(position, position + 1))
        return span.stream, span.first


@pytest.mark.parametrize("seed", range(30))
def test_each_item_lies_where_it_was_put(seed: int) -> None:
    mixed = Mixed(seed, SMALL if seed % 2 else Limits())
    for _ in range(200):
        mixed.put(mixed.chance.choice((1, 1, 1, 2, 9)), mixed.chance.choice((5, 5, 70_000)))
    again = restored("q", mixed.queue.settings, records(mixed.queue), Instant(0))
    for position, (stream, index, _) in enumerate(mixed.model):
        assert mixed.lies(position) == (stream, index)
    for queue in (mixed.queue, again):
        queue.check()
        assert queue.bytes == sum(size for _, _, size in mixed.model)
        extents = {}
        for run in queue.runs:
            for lane, extent in zip(run.lanes, run.extents(), strict=True):
                extents.update({(lane.stream, at): 1 for at in range(extent.first, extent.stop)})
        assert sorted(extents) == sorted((stream, index) for stream, index, _ in mixed.model)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_dropped_is_settled_and_what_is_settled_is_dropped(seed: int) -> None:
    mixed = Mixed(seed, SMALL, bytes_max=1 << 40)
    for _ in range(100):
        mixed.put(mixed.chance.choice((1, 1, 2)), mixed.chance.choice((5, 6)))
    queue, dropped, settled = mixed.queue, set(), set()
    positions = list(range(len(mixed.model)))
    if seed % 3:
        mixed.chance.shuffle(positions)
    for position in positions:
        for lost in queue.gone(Interval(position, position + 1)):
            places = {(lost.extent.stream, at) for at in range(lost.extent.first, lost.extent.stop)}
            assert not places & dropped
            dropped |= places
        settled.add(position)
        assert {mixed.model.index(one) for one in mixed.model if one[:2] in dropped} <= settled
        held = {put for at, put in enumerate(mixed.put_of) if at not in settled}
        assert queue.bytes == sum(mixed.model[start][2] * (stop - start) for start, stop in held)
    queue.check()
    assert dropped == {(stream, index) for stream, index, _ in mixed.model}
    assert (len(queue.runs), queue.bytes, queue.runs.housed) == (0, 0, {})


@pytest.mark.parametrize("bytes_max", [0, 1 << 40])
def test_a_lease_takes_as_many_as_its_bytes_allow_whoever_put_them(bytes_max: int) -> None:
    mixed = Mixed(1, Limits(), bytes_max)
    for size in (10, 10, 500, 20, 30, 1_000, 5):
        mixed.put(1, size)
    sizes = []
    for call in range(7):
        lease = mixed.queue.lease(OperationId(NodeId("c"), call), 100, 550, Instant(0))
        sizes.append(
            [] if lease is None else [mixed.model[at][2] for part in lease.left for at in part]
        )
    assert sizes == [[10, 10, 500, 20], [30], [1_000], [5], [], [], []]


def test_single_puts_through_three_nodes_are_few_records_and_few_bytes() -> None:
    mixed = Mixed(1, Limits())
    for _ in range(20_000):
        mixed.put(1, mixed.chance.randrange(50, 300))
    pairs = records(mixed.queue)
    assert len(mixed.queue.runs) < 20_000 // 200
    assert sum(len(key) + len(value or b"") for key, value in pairs) < 7 * 20_000


def test_a_bound_in_bytes_makes_no_run_of_each_put() -> None:
    mixed = Mixed(1, Limits(), bytes_max=1 << 40)
    for _ in range(2_000):
        mixed.put(1, 100)
    assert len(mixed.queue.runs) < 2_000 // 200


def test_a_put_that_was_never_stored_leaves_its_lane_and_its_place_is_taken_anew() -> None:
    queue = Queue("q", QueueSettings())
    queue.show(queue.admit(OWN, 0, 2, 20, KEEPERS))
    ghost = queue.admit(OWN, 2, 3, 30, KEEPERS)
    queue.show(queue.admit(OTHER, 0, 4, 40, KEEPERS))
    queue.cancel(ghost)
    queue.check()
    queue.show(queue.admit(OWN, 2, 1, 11, KEEPERS))
    queue.check()
    assert queue.bytes == 71
    assert list(queue.ready) == [Interval(0, 2), Interval(5, 10)]
    again = restored("q", queue.settings, records(queue), Instant(0))
    for one in (queue, again):
        one.check()
        (run,) = one.runs
        assert [(lane.stream, lane.first, lane.count) for lane in run.lanes] == [
            (OWN, 0, 3),
            (OTHER, 0, 4),
        ]
        lost = one.gone(Interval(0, 10))
        places = [(lost.extent.first, lost.extent.stop) for lost in lost]
        assert places == [(0, 3), (0, 4)]


def test_columns_that_do_not_fit_each_other_are_refused() -> None:
    queue = Queue("q", QueueSettings())
    queue.admit(OWN, 0, 2, 20, KEEPERS)
    (run,) = queue.runs
    columns = run.columns()
    broken = type(columns)(columns.lanes, columns.whose, columns.counts, columns.sizes * 2)
    assert Run.of(0, columns).interval == run.interval
    with pytest.raises(ValueError, match="strips"):
        Run.of(0, type(columns)(columns.lanes, b"", columns.counts, columns.sizes))
    assert broken != columns


def test_what_is_to_be_kept_is_told_in_turns_and_nothing_of_it_is_left_out() -> None:
    """Runs are looked at one at a time, while items come and go."""
    nodes = Nodes(3)
    limits = Limits(run_items=4, walk_runs=1)
    for node in nodes.nodes.values():
        node._desk.limits = limits
    nodes.open(replicas=3)
    for at in range(40):
        nodes.put([b"%d" % at], at, f"n{at % 3 + 1}")
    nodes.settle(nodes.get(10).token, Interval(0, 10))
    nodes.pass_time(1)
    kept = {name: nodes.bodies(name) for name in nodes.members}
    nodes.restart("n3")
    nodes.view("n1", "n2", "n3")
    for at in range(40, 60):
        nodes.put([b"%d" % at], at, "n1")
        nodes.pass_time(0.01)
    nodes.pass_time(5)
    assert set(kept["n3"]) <= set(nodes.bodies("n3"))
    got = nodes.get(100)
    assert sum(part.count for part in got.parts) == 50
