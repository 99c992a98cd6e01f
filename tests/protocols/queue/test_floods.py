"""Whoever asks for thousands of queues at once waits for them alone: nobody else does."""

from random import Random
from zlib import crc32

import msgspec
from counted import Counted
from node_bench import ME, NodeBench
from nodes_bench import Nodes

from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Persist, Requested, Send
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.membership import View
from snowmelt.protocols.queue.api.calls import Open, Opened
from snowmelt.protocols.queue.api.settings import PARTITIONS_MAX, QueueSettings
from snowmelt.protocols.queue.controller.creation import QueueCreation
from snowmelt.protocols.queue.controller.founding import LONGEST, Foundations
from snowmelt.protocols.queue.limits import LIMITS
from snowmelt.protocols.queue.messages.home_words import Assignment, LocateQueue
from snowmelt.protocols.queue.metadata.metadata_cache import AGAIN_AFTER, MetadataCache
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.streams import Presence, keeper_of, node_of
from work import lines_of

MEMBERS = tuple(Nodes(3).members.values())
OTHERS = 1
"""The number of the call of somebody else; those of the flood are higher."""


class Flood(NodeBench):
    """A node whose disk takes its time, asked for many queues before it has made the first."""

    def __init__(self, queues: int, **limits: int) -> None:
        super().__init__()
        self.node._outbox.limits = msgspec.structs.replace(LIMITS, **limits)
        self.held = True
        self.flushes = 0
        self.most = 0
        """Changes in one write."""
        self.calls = [self.ask(Open(f"q{number}", make=True)) for number in range(queues)]

    def somebody_else(self) -> None:
        operation = OperationId(NodeId("c-2"), OTHERS)
        self.give(Requested(operation, Open("other", QueueSettings())))

    def flush(self) -> None:
        """The disk has done what it was asked so far, a millisecond later."""
        self.flushes += 1
        self.now = Instant(self.now + seconds(0.001))
        self._disk.flush()
        written, self._waiting = self._waiting, []
        for one in written:
            self.give(one)
        asked = [len(one.changes) for one in self._disk._asked if isinstance(one, Persist)]
        self.most = max(self.most, *asked, 0)


def test_who_opens_one_queue_does_not_wait_for_who_opens_thousands() -> None:
    bench = Flood(900)
    bench.somebody_else()
    while OTHERS not in bench.told:
        bench.flush()
    assert isinstance(bench.told[OTHERS], Opened)
    assert bench.flushes <= 10
    assert len(bench.told) < 100


def test_each_queue_that_is_made_is_asked_for_and_told_a_few_times_however_many_there_are() -> None:
    counts = dict[int, float]()
    for queues in (100, 900):
        with Counted(QueueCreation.where, MetadataCache.heard) as counted:
            bench = Flood(queues)
            while len(bench.told) < queues:
                bench.flush()
                bench.pass_time(0.01)
        assert all(isinstance(bench.told[call], Opened) for call in bench.calls)
        counts[queues] = counted.count / queues
        assert bench.most <= 400
    assert counts[900] <= 1.5 * counts[100] <= 12, counts


def test_a_client_that_looks_for_too_many_queues_is_told_so_and_no_other_is() -> None:
    bench = Flood(60, questions=60)
    bench.somebody_else()
    refused = [told for told in bench.told.values() if isinstance(told, Declined)]
    assert [told.error for told in refused] == ["Unavailable"] * 12
    assert OTHERS not in bench.told
    while len(bench.told) < 61:
        bench.flush()
    assert isinstance(bench.told[OTHERS], Opened)


def test_a_queue_whose_master_is_dead_is_not_waited_for_by_the_next_for_long() -> None:
    nodes, names = Nodes(2), [f"q{number}" for number in range(20)]
    of_n2 = [name for name in names if master_of(name, nodes) == "n2"]
    of_n1 = [name for name in names if master_of(name, nodes) == "n1"]
    for node in nodes.nodes.values():
        node._outbox.limits = msgspec.structs.replace(LIMITS, foundations=1)
    nodes.lost = lambda _, target, message: target == "n2" and isinstance(message, Assignment)
    operation = OperationId(NodeId("c-2"), 1)
    for name in of_n2[:2]:
        nodes._events.append((NodeId("n1"), Requested(operation, Open(name, QueueSettings()))))
    nodes._run()
    began = nodes.now
    assert isinstance(nodes.ask(Open(of_n1[0], QueueSettings())), Opened)
    assert LONGEST <= nodes.now - began <= 2 * LONGEST


def master_of(queue: str, nodes: Nodes) -> str:
    keepers = [keeper_of(member) for member in nodes.members.values()]
    return node_of(max(keepers, key=lambda keeper: crc32(f"{queue}/{keeper}".encode())))


def test_a_queue_that_waits_to_be_made_costs_no_names_of_partitions_when_it_is_asked_for() -> None:
    nodes = Nodes(1)
    node = nodes.nodes[NodeId("n1")]
    node._outbox.limits = msgspec.structs.replace(LIMITS, foundations=1)
    creation = node._controller.making
    creation._foundations.begins(ME.id, LocateQueue("first", QueueSettings(), NodeId("c-1")))
    ask = LocateQueue("second", QueueSettings(), NodeId("c-1"))
    creation.where(ME.id, ask)
    assert lines_of(lambda: creation.where(ME.id, ask)) < 3 * PARTITIONS_MAX


def test_what_nobody_waits_for_any_more_is_not_made() -> None:
    desk = Outbox(ME.id, Random(1), msgspec.structs.replace(LIMITS, foundations=1))
    foundations = Foundations(desk)
    told = [foundations.begins(ME.id, LocateQueue(name, None, "c-1")) for name in ("a", "b", "c")]
    assert told == [True, False, False]
    desk.now = Instant(seconds(1.5))
    assert not foundations.begins(ME.id, LocateQueue("c", None, "c-1"))  # asked for again
    desk.now = Instant(seconds(11))
    foundations.ended("a")
    wish = foundations.next()
    assert wish is not None
    assert wish.where.queue == "c"
    assert (foundations.next(), foundations.waiting) == (None, 0)


def test_of_many_who_wait_to_hear_of_a_queue_some_ask_again_each_time_in_turn() -> None:
    desk = Outbox(MEMBERS[0].id, Random(1), msgspec.structs.replace(LIMITS, asked_again=2))
    desk.set_presence(Presence(View(1, 1, MEMBERS[1].id, MEMBERS)))
    directory = MetadataCache(desk)
    for name in "abcde":
        call = OperationId(NodeId("c-1"), 1), Open(name)
        assert directory.ask(name, call, QueueSettings())
    desk.taken()
    asked = [asked_again(desk, directory) for _ in range(5)]
    assert asked == ["ab", "cd", "ea", "bc", "de"]
    operation = OperationId(NodeId("c-2"), 1)
    assert directory.ask("z", (operation, Open("z")), QueueSettings())
    desk.taken()
    assert [asked_again(desk, directory) for _ in range(3)] == ["az", "bz", "cz"]


def asked_again(desk: Outbox, directory: MetadataCache) -> str:
    """After which queues, while this node is woken three times as often as it asks."""
    for _ in range(3):
        desk.now = later(desk.now, Duration(AGAIN_AFTER // 3))
        directory.tick()
    return "".join(one.message.queue for one in desk.taken() if isinstance(one, Send))


def test_a_flood_of_questions_of_one_who_asks_is_asked_again_seldom_though_it_is_alone() -> None:
    desk = Outbox(MEMBERS[0].id, Random(1), LIMITS)
    desk.set_presence(Presence(View(1, 1, MEMBERS[1].id, MEMBERS)))
    directory = MetadataCache(desk)
    for number in range(1_000):
        call = OperationId(NodeId("c-1"), number), Open(f"q{number}")
        assert directory.ask(f"q{number}", call, QueueSettings())
    desk.taken()
    again = 0
    for _ in range(10):
        desk.now = later(desk.now, AGAIN_AFTER)
        directory.tick()
        again += sum(isinstance(one, Send) for one in desk.taken())
    assert again <= 700


def test_of_one_who_asks_few_are_made_at_once_and_another_does_not_wait_for_them() -> None:
    foundations = Foundations(Outbox(ME.id, Random(1), LIMITS))
    floods = [LocateQueue(f"q{number}", None, "c-1", "flood") for number in range(40)]
    begun = [one.queue for one in floods if foundations.begins(ME.id, one)]
    assert begun == ["q0", "q1", "q2", "q3"]
    shops = [LocateQueue(f"s{number}", None, "c-2", "shop") for number in range(6)]
    assert [foundations.begins(ME.id, one) for one in shops] == [True] * 4 + [False] * 2
    assert foundations.next() is None
    foundations.ended("s0")
    wish = foundations.next()
    assert wish is not None
    assert wish.where.queue == "s4"
    assert foundations.begins(ME.id, wish.where)
    assert foundations.next() is None
    foundations.ended("q0")
    wish = foundations.next()
    assert wish is not None
    assert wish.where.queue == "q4"


def test_one_who_asks_for_thousands_of_queues_leaves_places_to_others_where_they_wait() -> None:
    limits = msgspec.structs.replace(LIMITS, foundations=1, questions=10)
    foundations = Foundations(Outbox(ME.id, Random(1), limits))
    assert foundations.begins(ME.id, LocateQueue("first", None, "c-1"))
    for number in range(20):
        assert not foundations.begins(ME.id, LocateQueue(f"q{number}", None, "c-1"))
    assert foundations.waiting == 8
    other = LocateQueue("other", None, "c-2")
    foundations.begins(ME.id, other)
    assert foundations.waits(ME.id, other)


def test_who_asks_again_while_its_queue_waits_to_be_made_costs_little() -> None:
    nodes = Nodes(1)
    node = nodes.nodes[NodeId("n1")]
    node._outbox.limits = msgspec.structs.replace(LIMITS, foundations=1)
    creation = node._controller.making
    creation.where(ME.id, LocateQueue("first", QueueSettings(), NodeId("c-1")))
    ask = LocateQueue("second", QueueSettings(), NodeId("c-1"))
    first = lines_of(lambda: creation.where(ME.id, ask))
    assert lines_of(lambda: creation.where(ME.id, ask)) < first / 2


def test_thousands_that_waited_for_one_home_go_on_some_a_turn_first_come_first() -> None:
    desk = Outbox(MEMBERS[0].id, Random(1), msgspec.structs.replace(LIMITS, told=10))
    desk.set_presence(Presence(View(1, 1, MEMBERS[1].id, MEMBERS)))
    directory = MetadataCache(desk)
    for number in range(25):
        assert directory.ask("a", (OperationId(NodeId("c-1"), number), Open("a")), None)
    keepers = [keeper_of(one) for one in MEMBERS]
    directory.heard(Assignment("a", 1, keepers[0], (), QueueSettings(), keepers[0], active=True))
    assert directory.ask("a", (OperationId(NodeId("c-1"), 25), Open("a")), None)
    numbers, turns = [], 0
    while desk.inside:
        turns += 1
        assert len(desk.inside) <= 20  # what was answered, and what a call that came found
        numbers += [one.operation.number for one in desk.inside]
        desk.inside.clear()
        directory.go_on()
    assert numbers == list(range(26))
    assert turns > 1
