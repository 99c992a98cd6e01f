"""The introducer's rules, each by comparing what it returns."""

import math
from random import Random

import msgspec
import pytest

from snowmelt.core.instant import Instant, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import Announced, CancelTimer, Expired, Reply, Requested, SetTimer
from snowmelt.protocols.calling import Declined, Elsewhere, Gone
from snowmelt.protocols.membership import CutOff, Member, View
from snowmelt.protocols.pool.introducer import (
    POOLS_MAX,
    PROCESSES_MAX,
    SWEEP,
    Introducer,
    IntroducerTimer,
    introducer_of,
)
from snowmelt.protocols.pool.introductions import (
    Acquaintance,
    DescribePool,
    Introduce,
    ListPools,
    PeerReport,
    Pools,
    PoolStatus,
)
from snowmelt.protocols.pool.roster import EVERY, PATIENCE

N1, N2, N3 = NodeId("n1"), NodeId("n2"), NodeId("n3")
ADDRESS = Address("127.0.0.1", 5000)
MAKER, EATER = NodeId("c-maker"), NodeId("c-eater")
MAKES = Introduce("frames", ADDRESS, "camera", produces=True, consumes=False, rate=10.0, stock=3)
EATS = Introduce("frames", ADDRESS, "", produces=False, consumes=True)
CAMERA = Acquaintance(MAKER, "camera", ADDRESS, 10.0)


def view(*nodes, epoch=1):
    members = tuple(Member(one, Address(one, 4410), 1, 1) for one in nodes)
    return View(7, epoch, nodes[0], members)


class Desk:
    """An introducer, its timer, and a clock that the test turns."""

    def __init__(self, *nodes, me=N1, seed=1):
        self.node = Introducer(me, Random(seed))
        self.now = Instant(0)
        self.due = None
        self.versions = {}
        if nodes:
            self.give(Announced(view(*nodes)))

    def give(self, event):
        effects = self.node.handle(event, self.now)
        self.node.check()
        told = None
        for effect in effects:
            match effect:
                case SetTimer(IntroducerTimer.SWEEP, at):
                    assert self.due is None, "set twice"
                    self.due = at
                case CancelTimer(IntroducerTimer.SWEEP):
                    self.due = None
                case Reply(_, message):
                    told = message
                case _:
                    raise AssertionError(effect)
        return told

    def ask(self, request, client=EATER):
        return self.give(Requested(OperationId(client, 1), request))

    def says(self, client, word, **more):
        """A word with the newest version that this process was told."""
        word = msgspec.structs.replace(word, version=self.versions.get(client, 0), **more)
        told = self.ask(word, client)
        self.versions[client] = told.version
        return told

    def run(self, until):
        """Turns the clock; the timer fires when it is due."""
        while self.due is not None and self.due <= seconds(until):
            self.now, self.due = self.due, None
            self.give(Expired(IntroducerTimer.SWEEP))
        self.now = Instant(seconds(until))

    def producers(self):
        return [one.id for one in self.ask(DescribePool("frames")).producers]


@pytest.fixture
def desk():
    """One node alone, and a producer that is in the pool for good."""
    desk = Desk(N1)
    desk.says(MAKER, MAKES)
    return desk


def test_processes_are_introduced(desk):
    told = desk.says(EATER, EATS)
    assert (told.producers, told.known) == ((CAMERA,), (MAKER,))
    assert (told.settled, told.every) == (False, EVERY)
    told = desk.says(MAKER, MAKES)
    assert (told.producers, told.known) == (None, ())
    other = NodeId("c-a")
    told = desk.says(other, MAKES, name="", consumes=True)
    assert told.producers == (Acquaintance(other, "c-a", ADDRESS, 10.0), CAMERA)
    assert told.known == (other, MAKER)


def test_what_has_not_changed_is_not_told_again(desk):
    desk.says(EATER, EATS)
    assert desk.says(EATER, EATS).producers is None
    desk.says(MAKER, MAKES, stock=99)
    assert desk.says(EATER, EATS).producers is None


@pytest.mark.parametrize(
    "change",
    [{"name": "lens"}, {"address": Address("::1", 1)}, {"leaving": True}, {"rate": 12.1}],
    ids=str,
)
def test_what_has_changed_is_told(desk, change):
    desk.says(EATER, EATS)
    desk.says(MAKER, MAKES, **change)
    changed = msgspec.structs.replace(CAMERA, **change)
    assert desk.says(EATER, EATS).producers == (changed,)
    assert desk.says(EATER, EATS).producers is None


def test_a_rate_that_creeps_is_told_when_it_is_a_fifth_from_what_was_told(desk):
    desk.says(EATER, EATS)
    rates = [11.0, 12.0, 13.0, 14.0, 15.0, 16.0]
    told = []
    for rate in rates:
        desk.says(MAKER, MAKES, rate=rate)
        producers = desk.says(EATER, EATS).producers
        told.append(producers[0].rate if producers else None)
    assert told == [None, None, 13.0, None, None, 16.0]
    desk.says(MAKER, MAKES, rate=0.0)
    desk.says(EATER, EATS)
    desk.says(MAKER, MAKES, rate=1e-9)
    assert desk.says(EATER, EATS).producers[0].rate == 1e-9


def test_a_producer_that_leaves_is_still_known_until_it_is_gone(desk):
    desk.says(EATER, EATS)
    desk.says(MAKER, MAKES, leaving=True)
    told = desk.says(EATER, EATS)
    assert (told.producers[0].leaving, told.known) == (True, (MAKER,))
    desk.says(MAKER, MAKES, gone=True)
    told = desk.says(EATER, EATS)
    assert (told.producers, told.known) == ((), ())


def test_who_begins_to_consume_is_told_whom_to_ask(desk):
    version = desk.says(MAKER, MAKES).version
    word = msgspec.structs.replace(MAKES, consumes=True, version=version)
    for _ in range(2):  # the first answer may be lost
        assert desk.ask(word, MAKER).known == (MAKER,)


def test_silence_is_forgotten_after_the_patience(desk):
    desk.run(until=2)
    desk.says(EATER, EATS)
    desk.run(until=2.9)
    assert desk.producers() == [MAKER]
    desk.run(until=3.5)
    assert desk.producers() == []
    assert desk.says(EATER, EATS).producers == ()


def test_an_ended_connection_is_forgotten_soon_unless_its_process_speaks(desk):
    desk.says(EATER, EATS)
    desk.give(Announced(Gone(MAKER)))
    desk.run(until=0.4)
    assert desk.producers() == [MAKER]
    desk.says(MAKER, MAKES)
    desk.run(until=1.5)
    assert desk.producers() == [MAKER]
    desk.give(Announced(Gone(MAKER)))
    desk.give(Announced(Gone(NodeId("c-nobody"))))
    desk.run(until=2.5)
    assert desk.producers() == []


def test_the_last_word_of_a_pool_leaves_nothing_behind(desk):
    assert desk.due is not None
    desk.says(MAKER, MAKES, gone=True)
    assert desk.due is None
    assert desk.ask(ListPools()) == Pools(())
    told = desk.says(MAKER, MAKES, gone=True)
    assert (told.producers, told.settled) == (None, False)
    assert desk.ask(ListPools()) == Pools(())


def test_a_pool_without_anybody_is_forgotten_and_its_timer_with_it(desk):
    desk.run(until=10)
    assert desk.due is None
    assert desk.ask(DescribePool("frames")) == PoolStatus("frames", (), (), ())


def test_pools_are_described(desk):
    desk.says(EATER, EATS)
    desk.says(EATER, EATS, pool="birds")
    fares = PeerReport(age=seconds(2), got=5)
    desk.says(EATER, EATS, report=fares)
    frames = PoolStatus("frames", (CAMERA,), (3,), (EATER,), (PeerReport(),), (fares,))
    birds = PoolStatus("birds", (), (), (EATER,), (), (PeerReport(),))
    assert desk.ask(DescribePool("frames")) == frames
    assert desk.ask(ListPools()) == Pools((birds, frames))


def test_it_is_settled_when_everybody_has_had_time_to_speak(desk):
    for tenths in range(1, 30):
        desk.run(until=tenths / 10)
        assert not desk.says(MAKER, MAKES).settled
    desk.says(EATER, EATS)
    desk.run(until=3)
    told = desk.says(EATER, EATS)
    assert (told.settled, told.producers) == (True, (CAMERA,)), "who was kept for it may go now"


def test_what_all_take_together_is_told_once_all_have_been_heard(desk):
    other = NodeId("c-a")
    desk.says(EATER, EATS, taking=3.0)
    assert desk.says(EATER, EATS, taking=3.0).taken == 0, "others may take, too"
    desk.run(until=2)
    desk.says(other, EATS, taking=1.0)
    desk.says(EATER, EATS, taking=2.0)
    desk.says(MAKER, MAKES)
    desk.run(until=3)
    assert desk.says(other, EATS, taking=4.0).taken == 6.0
    assert desk.says(EATER, EATS, taking=2.0).taken == 6.0
    desk.says(other, EATS, gone=True)
    assert desk.says(EATER, EATS, taking=2.5).taken == 2.5
    desk.run(until=9)
    desk.says(MAKER, MAKES)
    assert desk.says(MAKER, MAKES).taken == 0, "the last who took is forgotten"


def test_nothing_is_taken_from_a_hand_before_it_is_settled():
    desk = Desk(N1)
    known = tuple(NodeId(f"c-{one}") for one in range(3))
    told = desk.says(EATER, EATS, fan_out=2, known=known)
    assert (told.producers, told.known) == ((), ())
    for one in (*known, NodeId("c-new")):
        desk.says(one, MAKES)
    told = desk.says(EATER, EATS, fan_out=2, known=known)
    assert told.known == known
    desk.run(until=2.9)
    for one in known:
        desk.says(one, MAKES)
    desk.run(until=3.1)
    told = desk.says(EATER, EATS, fan_out=2, known=known)
    assert (told.settled, len(told.known)) == (True, 3), "alone it must know all who are left"


def test_places_are_kept_for_producers_that_may_yet_speak(desk):
    known = (NodeId("c-1"), NodeId("c-2"))
    assert desk.says(EATER, EATS, fan_out=2, known=known).known == ()
    assert desk.says(EATER, EATS, fan_out=2, known=known[:1]).known == (MAKER,)
    other = NodeId("c-other")
    assert desk.says(other, EATS, fan_out=1, known=known[:1]).known == ()
    assert desk.says(other, EATS, fan_out=1).known == (MAKER,), "it says that it knows nobody"


def test_who_believes_in_a_producer_that_is_no_more_is_told(desk):
    desk.run(until=2.9)
    desk.says(MAKER, MAKES)
    desk.run(until=3.1)
    desk.says(EATER, EATS, fan_out=2)
    assert desk.says(EATER, EATS, fan_out=2, known=(MAKER,)).producers is None
    told = desk.says(EATER, EATS, fan_out=2, known=(MAKER, NodeId("c-no-more")))
    assert (told.producers, told.known) == ((CAMERA,), (MAKER,))


# --- which node ----------------------------------------------------------------------------------


def test_another_node_is_named_when_it_introduces():
    nodes = (N1, N2, N3)
    names = [f"pool-{number}" for number in range(60)]
    for name in names:
        chosen = introducer_of(name, view(*nodes)).id
        for me in nodes:
            told = Desk(*nodes, me=me).ask(msgspec.structs.replace(EATS, pool=name))
            where = Desk(*nodes, me=me).ask(DescribePool(name))
            if me == chosen:
                assert (told.producers, where.name) == ((), name)
            else:
                assert told == where == Elsewhere(chosen, Address(chosen, 4410))
    before = [introducer_of(name, view(*nodes)).id for name in names]
    after = [introducer_of(name, view(N1, N3)).id for name in names]
    assert all(before.count(one) > 10 for one in nodes)
    assert all(one == then for one, then in zip(before, after, strict=True) if one != N2)


def test_a_view_that_moves_a_pool_ends_it_here_and_no_other():
    desk = Desk(N1)
    names = [f"pool-{number}" for number in range(20)]
    for name in names:
        desk.says(MAKER, MAKES, pool=name)
    versions = dict(desk.versions)
    desk.give(Announced(view(N1, N2, epoch=2)))
    kept = [one.name for one in desk.ask(ListPools()).pools]
    here = [name for name in names if introducer_of(name, view(N1, N2)).id == N1]
    assert kept == sorted(here)
    assert 0 < len(kept) < len(names)
    assert desk.versions == versions
    desk.run(until=2)
    desk.give(Announced(view(N1, epoch=3)))
    desk.run(until=3)
    moved = next(name for name in names if name not in here)
    assert not desk.says(MAKER, MAKES, pool=moved).settled


def test_a_node_without_a_view_knows_nothing_and_one_cut_off_goes_on(desk):
    assert Desk().ask(EATS).error == Desk().ask(ListPools()).error == "Unavailable"
    desk.give(Announced(CutOff(1)))
    assert desk.says(EATER, EATS).producers == (CAMERA,)


def test_versions_of_another_introducer_are_not_taken_for_its_own():
    drawn = {Desk(N1, seed=seed).ask(EATS).version for seed in range(50)}
    assert len(drawn) == 50
    assert min(drawn) > 0


# --- time ----------------------------------------------------------------------------------------


def test_its_own_sleep_is_nobodys_silence(desk):
    desk.says(EATER, EATS)
    desk.now = Instant(seconds(60))
    desk.due = None
    desk.give(Expired(IntroducerTimer.SWEEP))
    assert desk.producers() == [MAKER]
    assert not desk.says(EATER, EATS).settled
    desk.run(until=60 + (PATIENCE + SWEEP) / seconds(1))
    assert desk.ask(DescribePool("frames")).producers == ()


# --- what is refused -----------------------------------------------------------------------------

BAD = {
    "a pool with a slash": {"pool": "a/b"},
    "a pool without a name": {"pool": ""},
    "a producer's name with a NUL": {"name": "a\0"},
    "a long name": {"name": "n" * 101},
    "a rate that is none": {"rate": math.nan},
    "an endless rate": {"rate": math.inf},
    "a negative rate": {"rate": -1.0},
    "a rate that sums to nothing": {"rate": 1e300},
    "taking more than all": {"taking": 1e300},
    "taking what is none": {"taking": math.nan},
    "a negative stock": {"stock": -1},
    "a huge stock": {"stock": 2**64 - 1},
    "a negative fan-out": {"fan_out": -1},
    "a huge fan-out": {"fan_out": 2**63},
    "no host": {"address": Address("", 1)},
    "a host that is none": {"address": Address("a b", 1)},
    "no port": {"address": Address("h", 0)},
    "a port that is none": {"address": Address("h", 70_000)},
    "a port below zero": {"address": Address("h", -1)},
    "a report of a time before it came": {"report": PeerReport(age=-1)},
    "a report of endless objects": {"report": PeerReport(got=2**63)},
    "a report with a novel in it": {"report": PeerReport(access="a" * 21)},
    "too many known": {"known": (MAKER,) * (PROCESSES_MAX + 1)},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_what_nobody_should_be_told_is_refused(desk, bad):
    told = desk.ask(msgspec.structs.replace(MAKES, **bad), EATER)
    assert isinstance(told, Declined), told
    assert (told.error, "allowed" in told.text) == ("BadOption", True)
    assert desk.ask(ListPools()) == Pools(
        (PoolStatus("frames", (CAMERA,), (3,), (), (PeerReport(),)),)
    )


def test_a_name_that_is_none_has_no_description(desk):
    assert desk.ask(DescribePool("a/b")).error == "BadOption"


def test_a_consumer_needs_no_address(desk):
    assert desk.says(EATER, EATS, address=Address("", 0)).known == (MAKER,)


def test_there_are_bounds(desk):
    for number in range(POOLS_MAX):  # each of another who pays
        whose = OperationId(NodeId(f"c-{number}"), 1)
        asked = msgspec.structs.replace(EATS, pool=f"pool-{number}")
        desk.node.handle(Requested(whose, asked), desk.now)
    told = desk.ask(msgspec.structs.replace(EATS, pool="one-more"))
    assert (told.error, str(POOLS_MAX) in told.text) == ("Full", True)
    for number in range(PROCESSES_MAX - 1):
        desk.node.handle(Requested(OperationId(NodeId(f"c-{number}"), 1), EATS), desk.now)
    told = desk.ask(EATS)
    assert (told.error, str(PROCESSES_MAX) in told.text) == ("Full", True)
    told = desk.says(MAKER, MAKES, rate=20.0)
    assert told.producers[0].rate == 20.0, "who is in stays in"
    desk.node.check()


def test_two_hundred_consumers_are_spread_over_a_thousand_producers_from_the_start(desk):
    makers = [NodeId(f"c-m{number}") for number in range(1000)]
    eaters = [NodeId(f"c-e{number}") for number in range(200)]
    hands = dict.fromkeys(eaters, ())
    for one in makers:
        desk.node.handle(Requested(OperationId(one, 1), MAKES), desk.now)
    for _ in range(3):
        for one in eaters:
            word = msgspec.structs.replace(EATS, fan_out=10, known=hands[one])
            (reply,) = desk.node.handle(Requested(OperationId(one, 1), word), desk.now)
            hands[one] = reply.message.known
    degrees = [0] * 1000
    for hand in hands.values():
        assert len(hand) == 10
        for producer in hand:
            if producer != MAKER:
                degrees[int(producer[3:])] += 1
    assert (min(degrees) >= 1, max(degrees) <= 3) == (True, True)


def test_another_stands_in_for_a_node_that_does_not_answer_and_nobody_forgets_by_its_word():
    there = view(N1, N2, N3)
    first = introducer_of("frames", there).id
    second = introducer_of("frames", there, (first,)).id
    desk = Desk(N1, N2, N3, me=second)
    asked = desk.give(Requested(OperationId(EATER, 1), EATS))
    assert isinstance(asked, Elsewhere)
    assert asked.node == first
    for step in range(12):  # longer than it takes to have heard of all
        desk.now = Instant(step * EVERY)
        makes = msgspec.structs.replace(MAKES, silent=(first,))
        desk.give(Requested(OperationId(MAKER, step + 2), makes))
        eats = msgspec.structs.replace(EATS, silent=(first,))
        told = desk.give(Requested(OperationId(EATER, step + 2), eats))
        assert not told.settled
        assert [one.id for one in told.producers] == [MAKER]
