"""Large steps: each goes when there is way for it, and is given the time that it needs."""

from random import Random

import pytest

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Send
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.words import Append, Body, Head
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.replication.follower_progress import FollowerProgress, Followers
from snowmelt.protocols.queue.store.copy import Copy
from snowmelt.protocols.queue.store.send_window import LOST_AFTER, SendWindow

LARGE = 20 << 20


def step_of(number, *sizes):
    bodies = tuple(Body(b"%d-%d" % (number, at), bytes(size)) for at, size in enumerate(sizes))
    return Append("q", 1, Head(1, number), Head(1, number - 1), (), bodies, ())


class Bench:
    """A leader's followers, and what they are sent."""

    def __init__(self):
        self.ways = SendWindow(32 << 20)
        self.desk = Outbox(NodeId("n1"), Random(1))
        self.copy = Copy("q")
        home = Assignment("q", 1, "n1/1", ("n2/1",), QueueSettings(replicas=2))
        self.one = FollowerProgress(appended=1, told=1)
        self.followers = Followers(self.desk, home, self.copy, {"n2/1": self.one}, self.ways)
        self.desk.now = Instant(0)
        self.copy.head = Head(1, 1)

    def append(self, *sizes):
        step = step_of(self.copy.head.step + 1, *sizes)
        self.copy.append(step)
        self.followers.append(step)
        return self.sent()

    def come(self, number):
        """All up to a step is there; which go then."""
        self.followers.appended("n2/1", Head(1, number))
        return self.sent()

    def tick(self, after):
        self.desk.now = later(self.desk.now, after)
        self.followers.tick(0)
        return self.sent()

    def sent(self):
        words = [one.message for one in self.desk.taken() if isinstance(one, Send)]
        return [one.head.step for one in words if isinstance(one, Append)]


@pytest.fixture
def bench():
    return Bench()


def test_a_large_step_goes_when_the_one_before_has_come(bench):
    assert bench.append(LARGE) == [2]
    assert bench.append(LARGE) == []
    assert bench.come(2) == [3]


def test_what_is_small_goes_behind_what_is_large(bench):
    assert bench.append(LARGE) == [2]
    assert (bench.append(LARGE), bench.append(1)) == ([], [])
    assert bench.come(2) == [3, 4]


def test_what_is_small_waits_for_nothing(bench):
    assert [bench.append(10, 1000), bench.append(LARGE), bench.append(10)] == [[2], [3], [4]]


def test_several_that_are_not_too_much_together_go_at_once(bench):
    assert [bench.append(LARGE // 2) for _ in range(4)] == [[2], [3], [4], []]


def test_what_goes_to_a_node_for_another_queue_counts_as_well(bench):
    n2, other = NodeId("n2"), ("other", 7)
    assert bench.ways.goes(n2, other, LARGE, bench.desk.now)
    assert bench.append(LARGE) == []
    bench.ways.came(n2, other)
    assert bench.tick(milliseconds(301)) == [2]


def test_small_steps_are_sent_again_soon(bench):
    bench.append(10)
    assert bench.tick(milliseconds(301)) == [2]


def test_what_is_large_and_did_not_come_is_sent_again_when_it_is_as_good_as_lost(bench):
    bench.append(LARGE)
    assert bench.tick(seconds(5)) == []
    assert bench.tick(LOST_AFTER) == [2]


def test_what_is_lost_goes_again_before_what_waited_behind_it(bench):
    assert (bench.append(LARGE), bench.append(LARGE)) == ([2], [])
    assert bench.tick(LOST_AFTER) == [2]
    assert (bench.come(2), bench.come(3)) == ([3], [])


def test_what_waited_for_way_goes_once_and_is_not_in_the_way_when_it_has_come(bench):
    n2, other = NodeId("n2"), ("other", 7)
    assert bench.ways.goes(n2, other, LARGE, bench.desk.now)
    assert (bench.append(LARGE), bench.append(LARGE)) == ([], [])
    bench.ways.came(n2, other)
    assert bench.tick(seconds(2)) == [2]
    assert (bench.come(2), bench.come(3)) == ([3], [])


def test_large_steps_that_wait_are_kept(bench):
    assert [bench.append(LARGE) for _ in range(3)] == [[2], [], []]
    assert bench.tick(seconds(9)) == []
    assert (bench.come(2), bench.come(3), bench.come(4)) == ([3], [4], [])


def test_who_lacks_more_than_is_kept_is_sent_a_copy(bench):
    for _ in range(8):
        bench.append(LARGE)
    assert bench.come(2) == []
    assert bench.one.sending is not None
    assert bench.append(10) == [10]
