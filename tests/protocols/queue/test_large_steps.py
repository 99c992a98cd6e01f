"""Bodies that are large: they go ahead of their step, and are given the time that they need."""

from random import Random

import pytest

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Send
from snowmelt.protocols.queue.copy import Copy
from snowmelt.protocols.queue.desk import Desk
from snowmelt.protocols.queue.followers import Follower, Followers
from snowmelt.protocols.queue.large import LOST_AFTER, Gathering, Ways, parted
from snowmelt.protocols.queue.messages import Home
from snowmelt.protocols.queue.settings import QueueSettings
from snowmelt.protocols.queue.words import Ahead, Append, Body, Head

LARGE = 20 << 20


def step_of(number, *sizes):
    bodies = tuple(Body(b"%d-%d" % (number, at), bytes(size)) for at, size in enumerate(sizes))
    return Append("q", 1, Head(1, number), Head(1, number - 1), (), bodies, ())


class Bench:
    """A leader's followers, and what they are sent."""

    def __init__(self):
        self.ways, self.last = Ways(), []
        self.desk = Desk(NodeId("n1"), Random(1))
        self.copy = Copy("q")
        home = Home("q", 1, "n1/1", ("n2/1",), QueueSettings(replicas=2))
        self.one = Follower(appended=1)
        self.followers = Followers(self.desk, home, self.copy, {"n2/1": self.one}, self.ways)
        self.desk.now = Instant(0)
        self.copy.head = Head(1, 1)

    def append(self, *sizes):
        step = step_of(self.copy.head.step + 1, *sizes)
        self.copy.append(step)
        self.followers.append(step)
        return self.sent()

    def come(self, sent):
        """The first of these is there; the kinds of what goes then."""
        word = next(one for one in sent if type(one) is Ahead)
        self.ways.came(NodeId("n2"), "q", word.head, word.body.key)
        self.followers.arrived("n2/1")
        self.last = self.sent()
        return [type(one) for one in self.last]

    def tick(self, after):
        self.desk.now = later(self.desk.now, after)
        self.followers.tick(0)
        return self.sent()

    def sent(self):
        return [one.message for one in self.desk.taken() if isinstance(one, Send)]


@pytest.fixture
def bench():
    return Bench()


def test_each_large_body_goes_when_the_one_before_has_come_and_its_step_behind(bench):
    first = bench.append(10, LARGE, LARGE)
    assert [type(one) for one in first] == [Ahead]
    assert bench.come(first) == [Ahead, Append]
    assert [len(one.bodies) for one in bench.last[1:]] == [1]


def test_what_is_small_goes_behind_what_is_large(bench):
    first = bench.append(LARGE, LARGE)
    assert bench.append(1) == []
    assert bench.come(first) == [Ahead, Append, Append]


def test_what_is_small_goes_in_one_message(bench):
    assert [type(one) for one in bench.append(10, 1000)] == [Append]


def test_small_steps_are_sent_again_soon(bench):
    bench.append(10)
    assert len(bench.tick(milliseconds(301))) == 1


def test_what_is_large_and_did_not_come_is_sent_again_when_it_is_as_good_as_lost(bench):
    bench.append(LARGE)
    assert bench.tick(seconds(5)) == []
    assert [type(one) for one in bench.tick(LOST_AFTER)] == [Ahead, Append]


def test_large_steps_that_are_on_their_way_are_kept(bench):
    for _ in range(3):
        step = bench.append(LARGE)
        bench.come(step or bench.last)
    sent = bench.tick(seconds(9))
    assert [one.head.step for one in sent if type(one) is Ahead] == [2]


@pytest.mark.parametrize("seed", range(8))
def test_in_whatever_order_they_come_it_is_whole_when_the_last_is_there(seed):
    step = step_of(2, 5, 50, 60)
    parts = list(parted(step, 10))
    Random(seed).shuffle(parts)
    gathering = Gathering()
    told = [gathering.step(one) if type(one) is Append else gathering.body(one) for one in parts]
    assert told[:-1] == [None] * 2
    assert sorted(one.key for one in told[-1].bodies) == [one.key for one in step.bodies]
    assert not told[-1].ahead
