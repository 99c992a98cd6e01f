"""What a node does with a put until the master has its say."""

from random import Random
from typing import Any

from master_bench import KEEPERS, MEMBERS, OWN
from msgspec import structs

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Persist, Persisted, PersistFailed, Reply, Send
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo.calls import Put, PutDone
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.directory import Directory
from snowmelt.protocols.fifo.early import TooEarly
from snowmelt.protocols.fifo.intake import Intake
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.messages import (
    Admit,
    Admitted,
    Copied,
    Copy,
    Drop,
    Entry,
    Home,
    Verdict,
)
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.fifo.streams import Presence, keeper_of
from snowmelt.protocols.membership import Member, View

REBORN = Member(NodeId("n3"), MEMBERS[2].address, birth=2, start=2)


class Taking:
    """The intake of n1; the master of queue `q` is n2, or the first of those that are named."""

    def __init__(
        self, *members: Member, keepers: tuple[str, ...] = KEEPERS[1:2], **settings: Any
    ) -> None:
        self.desk = Desk(NodeId("n1"), Random(0))
        self.view(*(members or MEMBERS))
        master, *mirrors = keepers
        self.home = Home("q", 1, master, tuple(mirrors), QueueSettings(**settings), active=True)
        directory = Directory(self.desk)
        directory.heard(self.home)
        self.intake = Intake(self.desk, Keeper(self.desk, lambda _: None), directory)
        self.sent: list[tuple[NodeId, Any]] = []
        self.told: list[Any] = []

    def view(self, *members: Member) -> None:
        self.desk.set_presence(Presence(View(1, 1, NodeId("n1"), members)))

    def put(self, number: int, **more: Any) -> None:
        batch = Batch.of([b"%d" % number])
        put = Put("q", "p", number, bytes(batch.offsets), bytes(batch.blob), **more)
        self.intake.put(OperationId(NodeId("c-1"), 100 + number), put, self.home)
        self.collect()

    def flush(self, failed: str = "") -> None:
        """What is to be written is on the disk, or finds no room."""
        self.desk.begin_write()
        (ticket,) = [one.ticket for one in self.desk.taken() if isinstance(one, Persist)]
        self.desk.written(PersistFailed(ticket, failed) if failed else Persisted(ticket))
        self.collect()

    def copied(self, stop: int, keeper: str) -> None:
        self.intake.copied(Copied("q", OWN, stop, keeper))
        self.collect()

    def judged(self, verdict: Verdict) -> None:
        self.intake.admitted(Admitted("q", OWN, (verdict,)))
        self.collect()

    def pass_time(self, seconds: float) -> None:
        self.desk.now = Instant(self.desk.now + round(seconds * 10**9))
        self.intake.tick()
        self.collect()

    def collect(self) -> None:
        self.intake.offer()
        for effect in self.desk.taken():
            match effect:
                case Send(target, message):
                    self.sent.append((target, message))
                case Reply(_, message):
                    self.told.append(message)

    def offered(self) -> list[Entry]:
        """Since this was asked last."""
        entries = [one for one in self.taken(Admit) for one in one.entries]
        self.sent.clear()
        return entries

    def taken(self, kind: type) -> list[Any]:
        return [message for _, message in self.sent if isinstance(message, kind)]


def test_an_offer_says_whose_turn_it_is_and_how_old() -> None:
    node = Taking()
    node.put(1, caller="a", turn=5)
    node.put(2)
    node.flush()
    first, second = node.offered()
    assert (first.caller, first.turn, first.age) == ("a", 5, 0)
    assert (second.caller, second.turn) == ("c-1", 102)  # the call itself
    node.pass_time(0.6)
    assert [one.age for one in node.offered()] == [600_000_000] * 2


def test_the_copies_that_are_told_are_the_masters_word() -> None:
    node = Taking(replicas=3)
    node.put(1)
    node.flush()
    node.copied(1, KEEPERS[1])
    node.copied(1, KEEPERS[2])
    node.judged(Verdict(0, 4, 5, repeated=True, dropped=True, copies=1))
    assert node.told == [PutDone(4, 5, copies=1, flushed=True, repeated=True)]


def test_what_came_too_early_has_no_verdict_though_what_came_behind_it_was_offered() -> None:
    """Or the master takes it for decided, and tells that it was put (fifo seed 50 over etcd)."""
    node = Taking(keepers=KEEPERS, replicas=3)
    node.put(1)
    node.put(2)  # in the turn of the first: it is not known yet that that one has no room
    assert [offer.low for offer in node.desk.inside] == [0, 0]
    node.intake.too_early(TooEarly("q", 0))
    node.flush()
    node.copied(1, KEEPERS[1])
    node.copied(1, KEEPERS[2])
    (admit,) = [one for one in node.desk.inside if isinstance(one, Admit)]
    assert (admit.low, [one.first for one in admit.entries]) == (0, [0])


def test_what_was_early_for_an_earlier_master_names_only_who_has_it_to_the_next() -> None:
    """Its step did not carry it to those that it named, and nobody asked them (fifo seed 179)."""
    node = Taking(keepers=KEEPERS, replicas=3)
    node.pass_time(1)
    node.put(1)
    node.flush()
    node.intake.homed(structs.replace(node.home, term=2))
    node.collect()
    named = [
        one.keepers for say in node.desk.inside if isinstance(say, Admit) for one in say.entries
    ]
    assert named == [KEEPERS[:1]]  # too few: it is copied, and offered again
    node.pass_time(0.6)
    assert {target for target, one in node.sent if isinstance(one, Copy)} == {"n2", "n3"}


def test_nothing_is_offered_with_fewer_copies_than_are_needed() -> None:
    """Though fewer nodes are here: then it waits for more of them."""
    node = Taking(*MEMBERS[:2], replicas=3, durable_copies=3)
    node.put(1)
    node.flush()
    node.copied(1, KEEPERS[1])
    node.pass_time(1)
    assert node.offered() == []
    node.view(*MEMBERS)
    node.pass_time(1)
    assert [(target, one.stop) for target, one in node.sent if isinstance(one, Copy)] == [("n3", 1)]
    node.copied(1, KEEPERS[2])
    assert [one.keepers for one in node.offered()] == [KEEPERS]


def test_a_copy_whose_disk_is_lost_is_named_no_more_and_made_again() -> None:
    node = Taking(replicas=2)
    node.put(1)
    node.flush()
    node.view(MEMBERS[0], MEMBERS[2])  # so that the copy goes to n3
    node.pass_time(1)
    node.copied(1, KEEPERS[2])
    assert [one.keepers for one in node.offered()] == [(KEEPERS[0], KEEPERS[2])]
    node.view(MEMBERS[0], REBORN)
    node.pass_time(1)
    assert [target for target, one in node.sent if isinstance(one, Copy)] == ["n3"]
    assert [one.keepers for one in node.offered()] == [KEEPERS[:1]]
    node.copied(1, keeper_of(REBORN))
    node.pass_time(1)
    assert [one.keepers for one in node.offered()] == [(KEEPERS[0], keeper_of(REBORN))]
    node.judged(Verdict(0, 0, 0, dropped=True, error="Full"))
    assert [str(target) for target, one in node.sent if isinstance(one, Drop)] == ["n3"]


def test_an_offer_says_below_what_nothing_is_asked() -> None:
    node = Taking()
    for number in range(4):
        node.put(number)
    node.flush()
    assert [one.low for one in node.taken(Admit)] == [0]
    for first in (0, 1, 3):
        node.judged(Verdict(first, first, first + 1))
    node.sent.clear()
    node.put(4)
    node.flush()
    assert [one.low for one in node.taken(Admit)] == [2]
    node.judged(Verdict(2, 2, 3))
    node.judged(Verdict(4, 3, 4))
    node.sent.clear()
    node.put(5)
    node.flush()
    assert [one.low for one in node.taken(Admit)] == [5]


def test_what_found_no_room_is_offered_to_nobody() -> None:
    node = Taking(replicas=2)
    node.put(1)
    node.copied(1, KEEPERS[1])
    node.flush("no space left")
    assert [type(one) for one in node.told] == [Declined]
    assert (node.told[0].error, node.offered()) == ("DiskFull", [])
    node.pass_time(5)
    assert node.offered() == []
