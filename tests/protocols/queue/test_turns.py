"""However much waits, or is read or copied: one event takes some of it, the next ones the rest."""

import gc
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from nodes_bench import Nodes

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Persist, Persisted, Reply, Requested
from snowmelt.core.record import Write
from snowmelt.protocols.fifo import calls
from snowmelt.protocols.fifo.desk import REST, Desk
from snowmelt.protocols.fifo.journal import Journal
from snowmelt.protocols.fifo.limits import LIMITS
from snowmelt.protocols.fifo.messages import Extent, Mirror, Pulled
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.segments import GOING, Recent, Segment
from snowmelt.protocols.fifo.settings import QueueSettings

FEW = msgspec.structs.replace(LIMITS, told=4, pull_segments=5, answer_segments=7)


def some(count: int, done: list[int]) -> list[Callable[[], None]]:
    return [lambda one=one: done.append(one) for one in range(count)]


def test_what_depends_on_a_write_is_done_some_at_a_time_in_order() -> None:
    desk, done = Desk(NodeId("n1"), Random(1), FEW), list[int]()
    for then in some(10, done):
        desk.write((Write(b"k", b"v"),), then)
    desk.begin_write()
    (persist,) = desk.taken()
    assert isinstance(persist, Persist)
    desk.written(Persisted(persist.ticket))
    assert done == [0, 1, 2, 3]
    assert desk.alarms.due(desk.now) == [REST]
    desk.write((), lambda: done.append(10))
    desk.begin_write()
    (persist,) = desk.taken()
    desk.written(Persisted(persist.ticket))
    assert done == list(range(8))
    desk.finish()
    assert done == list(range(11))


def test_what_depends_on_a_step_is_done_some_at_a_time_in_order() -> None:
    journal = Journal(Queue("q", QueueSettings()), 1, 0, ())
    journal.limits, done = FEW, list[int]()
    for then in some(10, done):
        journal.after(then)
    journal.write()
    counts = []
    while due := journal.due():
        counts.append(len(due))
        for then in due:
            then()
    assert (counts, done) == ([4, 4, 2], list(range(10)))


def few() -> Nodes:
    nodes = Nodes(4)
    for node in nodes.nodes.values():
        node._desk.limits = FEW
    nodes.open(replicas=3)
    return nodes


def puts_at_once(nodes: Nodes, count: int) -> None:
    for sequence in range(1, count + 1):
        batch = Batch.of([b"x"])
        body = bytes(batch.offsets), bytes(batch.blob)
        put = calls.Put("q", "p", sequence, *body, patience=seconds(1))
        operation = OperationId(NodeId("c-2"), sequence)
        nodes._events.append((NodeId("n2"), Requested(operation, put)))
    nodes._run()


def test_puts_that_came_together_are_answered_in_several_turns() -> None:
    nodes, told = few(), list[int]()
    nodes.put([b"x"], 0, "n2")  # so that it is known where the queue is
    for node in nodes.nodes.values():
        counted(node, told)
    puts_at_once(nodes, 50)
    nodes.pass_time(1)
    assert sum(told) == 50
    assert max(told) <= 2 * FEW.told  # some were written in the meantime
    assert nodes.status().ready == 51


def counted(node: Any, told: list[int]) -> None:
    handle = node.handle

    def counting(event: Any, now: Instant) -> Any:
        effects = handle(event, now)
        told.append(sum(isinstance(one, Reply) for one in effects))
        return effects

    node.handle = counting


def test_copies_are_made_a_few_segments_at_a_time() -> None:
    nodes = few()
    puts_at_once(nodes, 30)
    nodes.pass_time(1)
    nodes.sent.clear()
    nodes.view("n1", "n2", "n4")
    nodes.pass_time(20)
    pieces = [told for _, _, told in nodes.sent if isinstance(told, Pulled)]
    if not pieces:  # it was n4 that had nothing
        nodes.view("n1", "n2", "n3")
        nodes.pass_time(20)
        pieces = [told for _, _, told in nodes.sent if isinstance(told, Pulled)]
    assert len(pieces) >= 6
    assert max(len(one.segments) for one in pieces) == FEW.pull_segments
    assert nodes.status().short_of_copies == 0


def test_an_answer_holds_so_many_segments_and_the_rest_is_fetched() -> None:
    nodes = few()
    puts_at_once(nodes, 30)
    nodes.pass_time(1)
    span = nodes.ask(calls.Survey("q", 0, 1000)).spans[0]
    at, positions = span.start, list[int]()
    while at < span.stop:
        rest = msgspec.structs.replace(span, start=at, first=span.first + at - span.start)
        told = nodes.ask(calls.Fetch("q", rest, 1 << 20), "n2")
        count = sum(part.count for part in told.parts)
        assert 0 < count <= FEW.answer_segments
        positions += range(at, at + count)
        at += count
    assert positions == list(range(span.start, span.stop))
    leased = nodes.get(30)
    assert sum(part.count for part in leased.parts) <= FEW.answer_segments
    spans = sum(one.stop - one.start for one in leased.spans)
    assert sum(part.count for part in leased.parts) + spans == 30


def test_more_records_than_one_scan_brings_are_read_by_several() -> None:
    nodes = Nodes(1)
    nodes.open()
    nodes.put([b"x"] * 2, 0)
    for sequence in range(1, 1_200):
        nodes.put([b"x"], sequence)
    nodes.restart("n1")
    nodes.view("n1")
    nodes.pass_time(2)
    leased = nodes.get(2_000)
    assert sum(part.count for part in leased.parts) == 1_201


def test_segments_at_hand_are_nothing_that_python_searches_for_cycles() -> None:
    recent = Recent(bytes_max=1 << 20)
    for first in range(1_000):
        recent.add("q", "s", Segment(first, bytes(8), b"x", b""), pin=first % 2 == 0)
    assert not any(map(gc.is_tracked, (recent._segments, recent._pinned)))
    assert not any(map(gc.is_tracked, recent._segments.values()))
    for stops in recent._stops.values():
        assert gc.get_referents(stops) in ([], [type(stops)])


def test_a_few_of_the_oldest_segments_go_at_once() -> None:
    recent, most = Recent(bytes_max=1_000 * 609), 0
    for first in range(2_000):
        before = len(recent._segments)
        segment = Segment(first, bytes(8), b"x", b"")
        recent.add("q", f"s{first % 3}", segment, pin=first < 500)
        most = max(most, before + 1 - len(recent._segments))
    assert 0 < most <= GOING
    there = [one for one in range(2_000) if recent.holding("q", f"s{one % 3}", one)]
    assert there[:500] == list(range(500))
    assert there[500:] == list(range(there[500], 2_000))
    assert 1_000 - GOING <= len(there) <= 1_000
    recent.drop("q", Extent("s0", 0, 2_000))
    assert not any(recent.holding("q", "s0", one) for one in there)


def test_how_many_mirrors_are_behind_is_told() -> None:
    nodes = Nodes(3)
    nodes.open(replicas=3)
    nodes.put([b"x"], 1)
    nodes.pass_time(1)
    status = nodes.status()
    assert status.mirrors_behind == 0
    deaf = status.mirrors[0]
    nodes.lost = lambda _, target, message: target == deaf and isinstance(message, Mirror)
    nodes.put([b"x"], 2)
    assert nodes.status().mirrors_behind == 1
    nodes.lost = lambda *_: False
    nodes.pass_time(2)
    assert nodes.status().mirrors_behind == 0
