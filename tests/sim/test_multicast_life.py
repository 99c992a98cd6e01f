"""The lives of multicast: what may never be seen is found, and planted bugs are found out."""

import msgspec
import pytest

from snowmelt.client.multicast.steps import ListenerProgress
from snowmelt.core.instant import Instant
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.multicast.calls import Messages, Position, Publication
from snowmelt.protocols.multicast.receiver import TopicReceiver
from snowmelt.protocols.multicast.topic import TopicHead
from snowmelt.protocols.multicast.topic_log import Arrival, TopicLog
from snowmelt.protocols.multicast.topic_writer import TopicWriter
from snowmelt_world.families import family
from snowmelt_world.families.multicast_ledger import FINAL, Ear, Ledger, Wish
from snowmelt_world.faults import KINDS
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import drawn
from snowmelt_world.world import Broken
from wide import wide

ANN, BOB, N1, N2 = (NodeId(name) for name in ("ann", "bob", "n1", "n2"))
HERE = Address("n1", 4410)
VIEW = View(1, 1, N1, (Member(N1, HERE, 1, 1), Member(N2, HERE, 1, 3)))


def lived(seed, kinds=KINDS):
    return live(drawn("multicast", seed, kinds), family("multicast"))


def said(number, ticket=None, era=5):
    return Publication(Position(era, number), ticket or number + 100, (b"%d" % (ticket or number),))


@pytest.fixture
def ledger():
    ledger = Ledger()
    for listener in (ANN, BOB):
        ledger.ears[listener] = Ear(listener)
        ledger.ears[listener].position = Position(5, 0)
    for number in range(5):
        ledger.asks(Wish(number + 100, (b"%d" % number,), Instant(number), 0))
    return ledger


def hears(ledger, listener, *publications, missed=False):
    for one in publications:
        ledger.numbered(one)
    sees(ledger, listener, *publications, missed=missed)


def sees(ledger, listener, *publications, missed=False):
    following = ListenerProgress()
    following.missed = ledger.ears[listener].missed
    came = following.take(Messages(publications, publications[-1].stop, missed))
    ledger.hears(listener, came, following)


def test_what_may_be_is_let_pass(ledger):
    hears(ledger, ANN, said(0), said(1))
    hears(ledger, BOB, said(0))
    hears(ledger, BOB, said(1), said(3), missed=True)
    ledger.judge(calm=False)


def test_no_position_has_two_publications(ledger):
    hears(ledger, ANN, said(0))
    with pytest.raises(Broken, match=r"at 5\.0 stand 100 and 101"):
        ledger.numbered(said(0, ticket=101))


def test_nobody_goes_back(ledger):
    hears(ledger, ANN, said(0), said(1))
    with pytest.raises(Broken, match=r"ann at 5\.2 was told of 5\.1"):
        hears(ledger, ANN, said(1))


def test_nobody_sees_what_no_node_has_said(ledger):
    with pytest.raises(Broken, match="which stands there by no node's word"):
        sees(ledger, ANN, said(0))
    ledger.numbered(said(0))
    other = msgspec.structs.replace(said(0), bodies=(b"0", b"and more"))
    with pytest.raises(Broken, match="which stands there by no node's word"):
        sees(ledger, ANN, said(1), other)


def test_what_is_heard_already_is_no_gap(ledger):
    hears(ledger, ANN, said(0))
    ledger.numbered(said(1, ticket=100))
    hears(ledger, ANN, said(2))
    ledger.judge(calm=False)
    ear = ledger.ears[ANN]
    ear.gaps[-1] = msgspec.structs.replace(ear.gaps[-1], heard=0)  # it heard that afterwards
    with pytest.raises(Broken, match=r"ann came from 5\.1 to 5\.2 and was not told"):
        ledger.judge(calm=False)


def test_what_was_said_to_be_refused_nobody_hears(ledger):
    hears(ledger, ANN, said(0))
    ledger.refused(100, "Unavailable")
    with pytest.raises(Broken, match="ann heard 100, which was refused: Unavailable"):
        ledger.judge(calm=False)
    ledger.wishes[101].answered = Instant(1)
    with pytest.raises(Broken, match="is with every node, and was said to be refused"):
        ledger.refused(101, "Unavailable")


def test_who_was_too_slow_for_what_nodes_keep_may_miss_some_and_is_told(ledger):
    bob = ledger.ears[BOB]
    bob.stays(N2, Instant(2))
    ledger.wishes[103].answered = Instant(4)
    bob.slow, bob.missed = True, 1
    with pytest.raises(Broken, match="bob never heard 103"):
        ledger.judge(calm=False)
    ledger.small = True
    ledger.judge(calm=False)
    assert ledger.excused == {"its listener was slower than what nodes keep": 1}


def test_nobody_hears_what_nobody_published(ledger):
    with pytest.raises(Broken, match="which nobody published"):
        hears(ledger, ANN, said(0, ticket=999))


def test_who_missed_something_must_be_told(ledger):
    hears(ledger, ANN, said(0), said(1))
    hears(ledger, BOB, said(1))
    with pytest.raises(Broken, match=r"bob missed 5\.0 and was not told"):
        ledger.judge(calm=False)


def test_two_who_hear_the_same_in_two_orders_are_found(ledger):
    ledger.ears[ANN].tickets = [100, 101, 102]
    ledger.ears[BOB].tickets = [102, 103, 100]
    for number in range(5):
        ledger.numbered(said(number))
    with pytest.raises(Broken, match="ann and bob heard the same in two orders"):
        ledger.judge(calm=False)


def test_a_promise_is_kept_to_all_who_never_failed(ledger):
    ledger.wishes[103].answered = Instant(4)
    bob = ledger.ears[BOB]
    bob.stays(N2, Instant(2))
    with pytest.raises(Broken, match="bob never heard 103"):
        ledger.judge(calm=False)
    ledger.fails(N2, Instant(3))
    with pytest.raises(Broken, match="bob never heard 103"):  # and was not told
        ledger.judge(calm=False)
    bob.missed = 1
    ledger.judge(calm=False)
    assert ledger.excused == {"its listener's node has failed": 1}


def test_a_promise_is_kept_at_the_next_node_too(ledger):
    ledger.wishes[103].answered = Instant(4)
    bob = ledger.ears[BOB]
    bob.stays(N1, Instant(0))
    bob.missed = 1
    bob.stay = None
    bob.stays(N2, Instant(3))
    ledger.judge(calm=False)
    assert ledger.excused == {"its listener has changed its node": 1}
    ledger.asks(Wish(105, (b"5",), Instant(4), 0, answered=Instant(5)))
    with pytest.raises(Broken, match="bob never heard 105"):
        ledger.judge(calm=False)


def test_a_promise_speaks_for_every_member(ledger):
    first = Position(5, 0)
    ledger.keeps(N2, 3, [first])  # in an earlier life
    with pytest.raises(Broken, match="n2/3 has not"):
        ledger.promises(N1, VIEW, first)
    ledger.keeps(N2, 4, [first])
    ledger.promises(N1, VIEW, first)


def test_at_rest_all_hear_the_same(ledger):
    ledger.asks(Wish(104, (b"4",), Instant(9), FINAL))
    hears(ledger, ANN, said(4), missed=True)
    with pytest.raises(Broken, match="heard different ends"):
        ledger.judge(calm=False)


def test_who_began_before_the_first_message_must_be_told_that_it_is_gone(ledger):
    eve = ledger.ears[NodeId("eve")] = Ear("eve")
    eve.position = Position(4, 0)
    hears(ledger, ANN, said(0))
    ledger.asks(Wish(9, (b"9",), Instant(9), 0))
    hears(ledger, NodeId("eve"), said(0, ticket=9, era=6))
    with pytest.raises(Broken, match=r"eve missed 5\.0 and was not told"):
        ledger.judge(calm=False)


@pytest.mark.wide
def test_some_lives_go_well():
    for seed in range(6, 13):
        report = lived(seed)
        assert (report.ending, report.sentence) == (Ending.SETTLED, "")


@pytest.mark.parametrize("seed", [29, 31, 389, 489])
def test_an_era_that_is_gone_is_told_to_who_has_heard_nothing_yet(seed):
    assert lived(seed).sentence == ""


@pytest.mark.parametrize("seed", [2719, 2813])
def test_who_waits_hears_all_that_its_node_has_heard_though_another_member_is_silent(seed):
    assert lived(seed).sentence == ""


@pytest.mark.parametrize("seeds", [range(1), *wide(range(1, 10))])
def test_without_faults_nothing_is_missed_or_comes_twice(seeds):
    sentences = [report.sentence for report in (lived(seed, ()) for seed in seeds)]
    assert not any(sentences)


# --- planted bugs ---------------------------------------------------------------------------------


def never_told(monkeypatch):
    real = TopicLog.read

    def read(self, start, bytes_max):
        return msgspec.structs.replace(real(self, start, bytes_max), missed=False)

    monkeypatch.setattr(TopicLog, "read", read)


def answered_at_once(monkeypatch):
    real = TopicWriter.settle
    monkeypatch.setattr(TopicWriter, "settle", lambda self, wishes, _: real(self, wishes, ()))


def an_old_number_in_a_new_era(monkeypatch):
    def position(got, *_):
        if not got.value:
            return Position(got.fence, 0)
        carried = msgspec.msgpack.decode(got.value, type=TopicHead)
        return Position(carried.era, carried.number)

    monkeypatch.setattr("snowmelt.protocols.multicast.topic._next_position", position)


def skipped_without_a_search_and_not_said(monkeypatch):
    real = TopicLog.take

    def take(self, come, *, own=False):
        arrival = real(self, come, own=own)
        return Arrival.HERE if arrival is Arrival.BEYOND else arrival

    def look(self, now):
        if self.line.early:
            return self._skip(now)
        self._search, self._goal = None, self.line.next
        return []

    monkeypatch.setattr(TopicLog, "take", take)
    monkeypatch.setattr(TopicReceiver, "_look", look)


@pytest.mark.parametrize(
    "plant",
    [
        never_told,
        answered_at_once,
        an_old_number_in_a_new_era,
        skipped_without_a_search_and_not_said,
    ],
)
def test_a_planted_bug_is_found(plant, monkeypatch):
    plant(monkeypatch)
    assert any(lived(seed).ending is not Ending.SETTLED for seed in range(40))
