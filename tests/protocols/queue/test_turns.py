"""However much waits, or is read or copied: one event takes some of it, the next ones the rest."""

from random import Random
from typing import Any

import msgspec
import pytest
from nodes_bench import Nodes

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Persist, Persisted, Reply, Requested
from snowmelt.core.record import Write
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.limits import LIMITS
from snowmelt.protocols.queue.messages.words import Append, SnapshotChunk
from snowmelt.protocols.queue.outbox import REST, Outbox
from snowmelt.protocols.queue.replication.sending import PIECE_BODIES
from snowmelt.protocols.queue.store import copy

FEW = msgspec.structs.replace(LIMITS, told=4)


class Then(msgspec.Struct, frozen=True):
    number: int


def test_what_depends_on_a_write_is_done_some_at_a_time_in_order() -> None:
    desk = Outbox(NodeId("n1"), Random(1), FEW)
    for number in range(10):
        desk.write((Write(b"k", b"v"),), Then(number))
    desk.begin_write()
    (persist,) = desk.taken()
    assert isinstance(persist, Persist)
    desk.written(Persisted(persist.ticket))
    assert [one.number for one in desk.inside] == [0, 1, 2, 3]
    assert desk.alarms.over(desk.now) == [REST]
    desk.write((), Then(10))
    desk.begin_write()
    (persist,) = desk.taken()
    desk.written(Persisted(persist.ticket))
    assert [one.number for one in desk.inside] == list(range(8))
    desk.finish()
    assert [one.number for one in desk.inside] == list(range(11))


def few() -> Nodes:
    nodes = Nodes(4)
    for node in nodes.nodes.values():
        node._outbox.limits = FEW
    nodes.open(replicas=3)
    return nodes


def puts_at_once(nodes: Nodes, count: int) -> None:
    leader = nodes.status().leader
    for sequence in range(1, count + 1):
        batch = Batch.of([b"x"])
        body = bytes(batch.offsets), bytes(batch.blob)
        put = calls.Put("q", "p", sequence, *body, patience=seconds(1))
        operation = OperationId(NodeId("c-2"), sequence)
        nodes._events.append((leader, Requested(operation, put)))
    nodes._run()


def test_puts_that_came_together_are_answered_in_several_turns() -> None:
    nodes, told = few(), list[int]()
    for node in nodes.nodes.values():
        counted(node, told)
    puts_at_once(nodes, 50)
    nodes.pass_time(1)
    assert sum(told) >= 50
    assert max(told) <= 2 * FEW.told  # some were written in the meantime
    assert nodes.status().ready == 50


def counted(node: Any, told: list[int]) -> None:
    handle = node.handle

    def counting(event: Any, now: Instant) -> Any:
        effects = handle(event, now)
        told.append(sum(isinstance(one, Reply) for one in effects))
        return effects

    node.handle = counting


def test_a_copy_is_sent_and_read_a_few_bodies_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy, "RECENT_BYTES", 0)  # else it is brought up by steps
    monkeypatch.setattr(copy, "STEPS_BYTES", 0)
    nodes = few()
    puts_at_once(nodes, 3 * PIECE_BODIES)
    nodes.pass_time(1)
    nodes.sent.clear()
    leader, *mirrors = nodes.status().leader, *nodes.status().followers
    (out,) = {"n1", "n2", "n3", "n4"} - {leader, *mirrors}
    gone = next(name for name in mirrors if name != "n1")
    nodes.view(*[name for name in nodes.members if name != gone])
    nodes.pass_time(20)
    pieces = [told for _, _, told in nodes.sent if isinstance(told, SnapshotChunk)]
    assert [one.number for one in pieces] == list(range(len(pieces)))
    assert max(len(one.bodies) for one in pieces) == PIECE_BODIES
    assert sum(len(one.bodies) for one in pieces) == 3 * PIECE_BODIES
    assert out in nodes.status().followers
    assert nodes.status().short_of_copies == 0


def test_what_one_put_brought_is_read_with_all_others() -> None:
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


@pytest.mark.parametrize("replicas", [2, 3])
def test_a_follower_of_an_idle_queue_that_is_away_is_missed(replicas: int) -> None:
    nodes = Nodes(replicas)
    nodes.open(replicas=replicas)
    nodes.put([b"x"] * 5, 1)
    nodes.pass_time(2)
    assert (nodes.status().short_of_copies, nodes.status().followers_behind) == (0, 0)
    away = next(one for one in nodes.status().followers if one != "n1")
    nodes.view(*[one for one in nodes.members if one != away])
    nodes.pass_time(5)
    assert away in nodes.status().followers
    assert (nodes.status().short_of_copies, nodes.status().followers_behind) == (5, 1)
    nodes.restart(away)
    nodes.view(*nodes.members)
    nodes.pass_time(5)
    assert (nodes.status().short_of_copies, nodes.status().followers_behind) == (0, 0)


def test_how_many_mirrors_are_behind_is_told() -> None:
    nodes = Nodes(3)
    nodes.open(replicas=3)
    nodes.put([b"x"], 1)
    nodes.pass_time(1)
    status = nodes.status()
    assert status.followers_behind == 0
    deaf = status.followers[0]
    nodes.lost = lambda _, target, message: target == deaf and isinstance(message, Append)
    nodes.put([b"x"], 2)
    assert nodes.status().followers_behind == 1
    nodes.lost = lambda *_: False
    nodes.pass_time(2)
    assert nodes.status().followers_behind == 0
