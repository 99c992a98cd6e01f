"""Which copies count where fewer than a majority must be durable."""

from random import Random

import pytest

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import Address, NodeId
from snowmelt.core.node import Send
from snowmelt.protocols.membership import Member, View
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.messages.home_words import Among, Assignment
from snowmelt.protocols.queue.messages.words import Head
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.replication.follower_progress import FollowerProgress, Followers
from snowmelt.protocols.queue.replication.in_sync import InSync
from snowmelt.protocols.queue.replication.takeover import TakeOver
from snowmelt.protocols.queue.store.copy import Copy
from snowmelt.protocols.queue.store.send_window import SendWindow
from snowmelt.protocols.queue.streams import Presence

ANN, BOB, COB = KEEPERS = ("n1/1", "n2/1", "n3/1")


class Bench:
    """A leader's look at two followers, and what it tells the controller."""

    def __init__(self, durable):
        settings = QueueSettings(replicas=3, durable_copies=durable)
        self.home = Assignment("q", 5, ANN, (BOB, COB), settings, active=True)
        self.desk = Outbox(NodeId("n1"), Random(1))
        members = tuple(
            Member(NodeId(f"n{at}"), Address("127.0.0.1", 4410 + at), birth=1, start=1)
            for at in (1, 2, 3)
        )
        self.desk.now = Instant(0)
        self.desk.set_presence(Presence(View(1, 1, NodeId("n9"), members)))
        self.copy = Copy("q")
        self.others = {BOB: FollowerProgress(appended=0), COB: FollowerProgress(appended=0)}
        self.set = InSync(
            self.desk,
            self.home,
            Followers(self.desk, self.home, self.copy, self.others, SendWindow(1 << 20)),
        )
        self.safe = 0

    def step(self, own, bob, cob, after=0.0):
        """So far each copy is, so much later; what is safe, and which set is asked for."""
        self.desk.now = later(self.desk.now, seconds(after))
        self.copy.head = Head(5, own)
        self.others[BOB].appended, self.others[COB].appended = bob, cob
        for name, step in ((BOB, bob), (COB, cob)):
            if step == own:
                self.others[name].heard = self.desk.now
        self.safe = max(self.safe, self.set.has(own))
        self.set.look(own, self.safe, 0, waits=self.safe < own)
        sent = [one.message for one in self.desk.taken() if isinstance(one, Send)]
        return self.safe, [(one.number, one.in_sync) for one in sent if isinstance(one, Among)]

    def written(self, number, *members):
        """The controller's word."""
        told = Assignment("q", 5, ANN, (BOB, COB), self.home.settings, in_sync=members, sets=number)
        self.set.written(told)


@pytest.fixture
def bench():
    return Bench(1)


def test_most_of_all_copies_count_while_they_answer(bench):
    assert bench.step(1, 0, 0) == (0, [])
    assert bench.step(1, 1, 0) == (1, [])


def test_who_is_left_counts_alone_only_when_that_is_written(bench):
    bench.step(1, 0, 0)
    assert bench.step(1, 0, 0, after=1.1) == (0, [(1, (ANN,))])
    assert bench.step(1, 0, 0)[0] == 0
    bench.written(1, ANN)
    assert bench.step(2, 0, 0)[0] == 2


def test_who_came_up_counts_before_it_may_lead(bench):
    bench.step(1, 0, 0)
    bench.step(1, 0, 0, after=1.1)
    bench.written(1, ANN)
    bench.step(2, 0, 0)
    assert bench.step(2, 2, 0, after=6) == (2, [(2, (ANN, BOB))])
    assert bench.step(3, 2, 0)[0] == 2  # it may be written, and BOB lead: it must have it
    assert bench.step(3, 3, 0)[0] == 3


def test_the_word_of_an_earlier_set_is_none_of_this_one(bench):
    bench.step(1, 0, 0)
    bench.step(1, 0, 0, after=1.1)
    bench.written(0)
    assert bench.step(1, 0, 0)[0] == 0


def test_where_a_majority_is_durable_nobody_is_left_out():
    bench = Bench(2)
    assert not bench.set.varies
    assert bench.step(1, 1, 0)[0] == 1


# --- who may lead ---------------------------------------------------------------------------------


def taking(*before, durable=1):
    settings = QueueSettings(replicas=3, durable_copies=durable)
    one = TakeOver(Assignment("q", 6, BOB, (COB, ANN), settings, before=before))
    one.fenced = True
    return one


def test_two_of_three_are_enough_to_go_on_from():
    one = taking(*KEEPERS)
    one.told(BOB, Head(5, 4), sure=True)
    assert one.newest(BOB, ()) is None
    one.told(COB, Head(5, 7), sure=True)
    assert one.newest(BOB, ()) == (COB, Head(5, 7))


def test_copies_that_do_not_count_are_not_gone_on_from():
    one = taking(ANN)
    one.told(BOB, Head(5, 4), sure=True)
    one.told(COB, Head(5, 7), sure=True)
    assert one.newest(BOB, ()) is None
    one.told(ANN, Head(5, 9), sure=True)
    assert one.newest(BOB, ()) == (ANN, Head(5, 9))


def test_when_the_disks_of_all_that_count_are_gone_the_newest_of_the_others_must_do():
    one = taking(ANN)
    one.told(BOB, Head(5, 4), sure=True)
    assert one.newest(BOB, (ANN,)) is None
    assert one.unheard(BOB, (ANN,)) == [COB, ANN]
    one.told(COB, Head(5, 7), sure=True)
    assert one.newest(BOB, (ANN,)) == (COB, Head(5, 7))
