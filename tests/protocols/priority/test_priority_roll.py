"""Which priority queues there are, where etcd decides: who coordinates has them from there."""

from random import Random
from typing import Any

import msgspec
import pytest

from snowmelt.core.instant import Instant
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import Announced, Note, Persist, Persisted, Reply, Requested, Send, Started
from snowmelt.protocols.membership import (
    KeepRecord,
    Leads,
    LeadsNoMore,
    Member,
    RecordsKept,
    View,
)
from snowmelt.protocols.priority import PriorityNode, calls
from snowmelt.protocols.priority.settings import QueueSettings, Registered

N1, N2 = NodeId("n1"), NodeId("n2")
JOBS = msgspec.msgpack.encode(Registered(queue="jobs", priorities=4, since=-1))


class Alone:
    """One machine that hears of etcd what a test says, and whose disk flushes at once."""

    def __init__(self) -> None:
        self.node = PriorityNode(N1, Random(7), on_disk=False)
        self.calls = 0
        self.answers: list[Any] = []
        self.asked: list[KeepRecord] = []
        self.notes: list[str] = []
        self.said = 0
        """How often others were told something."""
        self.hear(Started((), (), 0))

    def hear(self, *events: Any) -> None:
        waiting = list(events)
        while waiting:
            for effect in self.node.handle(waiting.pop(0), Instant(self.calls)):
                match effect:
                    case Persist(ticket):
                        waiting.append(Persisted(ticket))
                    case Reply(_, message):
                        self.answers.append(message)
                    case Send(_, KeepRecord() as record):
                        self.asked.append(record)
                    case Send():
                        self.said += 1
                    case Note(text):
                        self.notes.append(text)
        self.node.check()

    def told(self, *facts: Any) -> None:
        self.hear(*(Announced(fact) for fact in facts))

    def view(self, epoch: int, *members: NodeId, coordinator: NodeId = N1) -> None:
        those = tuple(Member(one, Address(one, 4410), 1, 1) for one in members)
        self.told(View(99, epoch, coordinator, those))

    def open(self, *, make: bool = False) -> Any:
        """What it answers at once; or None."""
        self.calls, before = self.calls + 1, len(self.answers)
        settings = QueueSettings(queue="jobs", priorities=4) if make else None
        call = calls.Open("jobs", settings, make=make)
        self.hear(Requested(OperationId(NodeId("c-1"), self.calls), call))
        return self.answers[-1] if len(self.answers) > before else None


def test_nobody_is_told_of_a_queue_before_etcd_has_it() -> None:
    one = Alone()
    one.told(Leads(()))
    one.view(1, N1)
    assert one.open(make=True) is None
    (record,) = one.asked
    assert record.key == "~priority/jobs"
    one.told(RecordsKept((record.ticket,), (record.ticket,)))  # of homes, and batons
    assert one.open(make=True) is None
    one.told(RecordsKept((), queues=(record.ticket,)))
    assert [type(answer) for answer in one.answers] == [calls.Opened, calls.Opened]
    assert len(one.asked) == 1  # also when all know it since


def test_what_was_asked_of_etcd_for_an_earlier_lead_is_asked_again() -> None:
    one = Alone()
    one.told(Leads(()))
    one.view(1, N1)
    assert one.open(make=True) is None
    (first,) = one.asked
    one.told(LeadsNoMore(), RecordsKept((), queues=(first.ticket,)))
    assert not one.answers
    one.told(Leads(()))
    again = one.asked[-1]
    assert (again.key, len(one.asked)) == (first.key, 2)
    one.told(RecordsKept((), queues=(first.ticket,)))
    assert not one.answers
    one.told(RecordsKept((), queues=(again.ticket,)))
    assert isinstance(one.answers[-1], calls.Opened)


def test_what_came_to_etcd_after_all_is_told_when_this_node_leads_again() -> None:
    one = Alone()
    one.told(Leads(()))
    one.view(1, N1)
    assert one.open(make=True) is None
    (record,) = one.asked
    one.told(LeadsNoMore(), Leads((), (), (("jobs", record.value),)))
    assert isinstance(one.answers[-1], calls.Opened)
    assert len(one.asked) == 1


def test_who_coordinates_says_nothing_before_it_has_heard_what_etcd_has() -> None:
    one = Alone()
    one.view(5, N1)
    assert one.open().error == "Unavailable"
    one.told(Leads((), (), (("jobs", JOBS),)))
    assert one.open().settings.priorities == 4
    assert not one.asked


def test_who_coordinates_with_others_is_silent_until_it_leads() -> None:
    one = Alone()
    one.view(5, N1, N2)
    assert not one.said
    one.told(Leads(()))
    assert one.said


def test_a_view_without_its_coordinator_is_waited_through() -> None:
    one = Alone()
    one.view(5, N1, coordinator=N2)
    assert one.open().error == "Unavailable"
    one.told(Leads(()))
    one.view(6, N1)
    assert one.open().error == "NoSuchQueue"


def test_what_etcd_lacks_of_what_is_known_is_there_before_anybody_hears_of_it() -> None:
    one = Alone()
    one.told(Leads(()))
    one.view(1, N1)
    one.open(make=True)
    one.told(RecordsKept((), queues=(one.asked[0].ticket,)))
    assert isinstance(one.open(), calls.Opened)
    one.told(LeadsNoMore(), Leads(()))  # it was put back from a backup
    one.view(2, N1)
    assert one.open() is None
    one.told(RecordsKept((), queues=(one.asked[1].ticket,)))
    assert [type(answer) for answer in one.answers] == [calls.Opened] * 3


@pytest.mark.parametrize(
    ("name", "record"), [("jobs", b"\xc1"), ("others", JOBS)], ids=["hurt", "another's"]
)
def test_a_record_that_can_not_be_read_is_passed_over_and_said(name: str, record: bytes) -> None:
    one = Alone()
    one.told(Leads((), (), ((name, record),)))
    one.view(1, N1)
    assert one.open().error == "NoSuchQueue"
    assert any(f"queue {name} can't be read in etcd" in text for text in one.notes)
