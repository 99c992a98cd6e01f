"""What goes together, as a pure machine: by examples, and against a simple account of each ticket.

The account: every ticket is told once or leaves, no call carries one that has left, those of one
call have one key and are no more than its worth, and where order counts none overtakes another.
"""

import gc
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from snowmelt.client.coalescing.joint_gets import dealt
from snowmelt.client.coalescing.machine import Coalescer
from snowmelt.client.coalescing.tickets import Bundle
from snowmelt.client.leases.delivered import part_bodies
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant
from snowmelt.protocols.queue.api.calls import ItemRun

LATE = Duration(50)
OVERDUE = Duration(30)
FAR = Instant(10**9)


@pytest.fixture(autouse=True, scope="module")
def _nothing_of_others() -> None:
    """What earlier tests left goes now.

    Hypothesis has Python parse this file. Python 3.11 fails at that when a finalizer that runs
    meanwhile parses as well, as the report of a warning in it does.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


def line(worth: int = 100, crowd: int = 99, *, ordered: bool = False) -> Coalescer:
    return Coalescer(worth, LATE, OVERDUE, crowd, ordered=ordered)


def asked(one: Coalescer, *whats: str, key: object = "key", weight: int = 1) -> list[int]:
    return [one.ask(what, key, weight, FAR) for what in whats]


def told(bundles: list[Bundle]) -> list[list[str]]:
    return [[ticket.what for ticket in each.tickets] for each in bundles]


def test_nobody_waits_for_company_when_nothing_is_on_its_way() -> None:
    one = line()
    asked(one, "a")
    [first] = one.go(Instant(0))
    one.back(first)
    asked(one, "b")
    assert told(one.go(Instant(1))) == [["b"]]


def test_what_is_asked_meanwhile_goes_as_one_call_when_the_first_is_back() -> None:
    one = line()
    asked(one, "a")
    [first] = one.go(Instant(0))
    asked(one, "b", "c", "d")
    assert one.go(Instant(1)) == []
    one.back(first)
    assert told(one.go(Instant(2))) == [["b", "c", "d"]]


def test_a_call_s_worth_goes_at_once() -> None:
    one = line(worth=3)
    asked(one, "a")
    one.go(Instant(0))
    asked(one, "b", "c")
    assert one.go(Instant(1)) == []
    asked(one, "d", "e")
    assert told(one.go(Instant(2))) == [["b", "c", "d"], ["e"]]


def test_a_call_that_is_late_holds_up_nobody() -> None:
    one = line()
    asked(one, "a")
    one.go(Instant(0))
    asked(one, "b")
    assert one.due == LATE
    assert told(one.go(Instant(LATE))) == [["b"]]


def test_where_order_counts_only_neighbours_go_together() -> None:
    for ordered, calls in ((True, [["a"], ["b"], ["c"]]), (False, [["a", "c"], ["b"]])):
        one = line(ordered=ordered)
        for what, key in (("a", 1), ("b", 2), ("c", 1)):
            asked(one, what, key=key)
        assert told(one.go(Instant(0))) == calls


def test_nobody_waits_for_a_call_that_it_could_not_be_in() -> None:
    one = line()
    asked(one, "a")
    one.go(Instant(0))
    asked(one, "b", key="another")
    assert told(one.go(Instant(1))) == [["b"]]


def test_where_order_counts_nobody_overtakes_one_that_waits() -> None:
    one = line(ordered=True)
    asked(one, "a")
    [first] = one.go(Instant(0))
    asked(one, "b")
    asked(one, "c", key="another")
    assert one.go(Instant(1)) == []
    one.back(first)
    assert told(one.go(Instant(2))) == [["b"], ["c"]]


def test_who_leaves_takes_only_its_own_part_along() -> None:
    one = line()
    asked(one, "a")
    [first] = one.go(Instant(0))
    _, two, three = asked(one, "b", "c", "d")
    assert one.leave(two) == 0
    one.back(first)
    [second] = one.go(Instant(1))
    assert told([second]) == [["b", "d"]]
    assert one.leave(three) == second.number
    assert [one.waits(ticket.number) for ticket in second.tickets] == [True, False]


def test_who_got_nothing_goes_ahead_of_those_that_came_later() -> None:
    one = line()
    asked(one, "a", "b")
    [first] = one.go(Instant(0))
    asked(one, "c")
    one.answered(first.tickets[0].number)
    one.again(first.tickets)
    one.back(first)
    assert told(one.go(Instant(1))) == [["b", "c"]]


def test_what_may_be_the_fault_of_one_goes_apart_in_order() -> None:
    one = line()
    numbers = asked(one, "a", "b", "c")
    [first] = one.go(Instant(0))
    one.leave(numbers[1])
    assert told(one.apart(first.tickets, Instant(1))) == [["a"], ["c"]]
    one.back(first)
    one.check()


def test_each_has_its_own_time() -> None:
    one = line()
    first = one.ask("a", "key", 1, Instant(100))
    [gone] = one.go(Instant(0))
    second = one.ask("b", "key", 1, Instant(20))
    assert one.due == 20
    assert one.over(Instant(19)) == []
    assert [(ticket.number, call) for ticket, call in one.over(Instant(20))] == [(second, 0)]
    assert one.go(Instant(LATE)) == []
    assert one.over(Instant(100)) == []  # its call knows why nothing came
    assert one.over(Instant(100 + OVERDUE)) == [(gone.tickets[0], gone.number)]
    assert gone.tickets[0].number == first
    one.back(gone)
    assert one.due is None


def test_whoever_shares_a_longer_call_does_not_wait_for_its_end() -> None:
    one = line()
    asked(one, "first")
    one.go(Instant(0))
    short = one.ask("short", "key", 1, Instant(100))
    one.ask("long", "key", 1, Instant(200))
    [both] = one.go(Instant(LATE))
    assert one.over(Instant(100)) == [(both.tickets[0], both.number)]
    assert both.tickets[0].number == short
    one.again(both.tickets)  # now no call is to tell it
    assert one.over(Instant(200)) == [(both.tickets[1], 0)]
    one.back(both)


def test_a_crowd_goes_in_halves_and_each_half_goes_on_when_it_is_back() -> None:
    one = line(crowd=4)
    asked(one, *"abcdef")
    first, second = one.go(Instant(0))
    assert told([first, second]) == [["a", "b", "c"], ["d", "e", "f"]]
    one.back(first)
    asked(one, *"abc")
    [third] = one.go(Instant(1))
    assert told([third]) == [["a", "b", "c"]]
    one.back(second)
    asked(one, "d")  # fewer than half of those on their way: they wait for company
    assert one.go(Instant(2)) == []
    asked(one, "e")
    assert told(one.go(Instant(2))) == [["d", "e"]]
    asked(one, *"ghijk")  # two are on their way
    assert one.go(Instant(3)) == []


def test_a_half_that_finds_nothing_on_its_way_is_not_halved_again() -> None:
    one = line(crowd=4)
    asked(one, *"abcdefgh")
    for half in one.go(Instant(0)):
        one.back(half)
    asked(one, *"abcd")
    assert told(one.go(Instant(1))) == [["a", "b", "c", "d"]]
    asked(one, *"efgh")
    [fifth] = one.go(Instant(1))
    assert told([fifth]) == [["e", "f", "g", "h"]]


def test_those_of_another_key_are_half_of_the_crowd_too() -> None:
    one = line(crowd=4)
    asked(one, *"abcd", key=1)
    assert told(one.go(Instant(0))) == [["a", "b"], ["c", "d"]]
    asked(one, *"efgh", key=2)
    assert told(one.go(Instant(1))) == [["e", "f", "g", "h"]]


class Account(RuleBasedStateMachine):
    """Random callers, calls and ends."""

    @initialize(ordered=st.booleans(), worth=st.integers(1, 12), crowd=st.integers(2, 8))
    def begin(self, ordered: bool, worth: int, crowd: int) -> None:
        self.ordered, self.worth = ordered, worth
        self.line = line(worth, crowd, ordered=ordered)
        self.now = 0
        self.open: dict[int, tuple[int, int, int]] = {}  # key, weight, until
        self.sent: list[int] = []  # as they went first
        self.away: list[Bundle] = []
        self.again: set[int] = set()

    def make(self, bundles: list[Bundle], *, alone: bool = False) -> None:
        for bundle in bundles:
            tickets = bundle.tickets
            assert len({ticket.key for ticket in tickets}) == 1
            assert len(tickets) == 1 or (sum(each.weight for each in tickets) <= self.worth)
            assert not alone or len(tickets) == 1
            for each in tickets:
                assert each.number in self.open
                assert each.number not in self.carried()
                if each.number not in self.again:
                    self.sent.append(each.number)
                self.again.discard(each.number)
            self.away.append(bundle)

    def carried(self) -> set[int]:
        return {each.number for bundle in self.away for each in bundle.tickets} & set(self.open)

    @rule(key=st.integers(0, 2), weight=st.integers(1, 5), time=st.integers(1, 300))
    def ask(self, key: int, weight: int, time: int) -> None:
        number = self.line.ask("what", key, weight, Instant(self.now + time))
        self.open[number] = key, weight, self.now + time

    @rule()
    def go(self) -> None:
        self.make(self.line.go(Instant(self.now)))
        held = {bundle.key for bundle in self.away}
        free = {
            number for number in set(self.open) - self.carried() if self.open[number][0] not in held
        }
        if self.ordered:  # who is behind one that waits does, too
            first = min(set(self.open) - self.carried(), default=0)
            free &= {first}
        assert not free, "somebody waits for company"

    @rule(time=st.integers(1, 120))
    def pass_time(self, time: int) -> None:
        self.now += time
        late = {number for number in self.open if self.over_at(number) <= self.now}
        assert {each.number for each, _ in self.line.over(Instant(self.now))} == late
        for number in late:
            del self.open[number]

    def over_at(self, number: int) -> int:
        """The last of a call is told by that."""
        until = self.open[number][2]
        ends = [
            max(each.until for each in bundle.tickets)
            for bundle in self.away
            if number in [each.number for each in bundle.tickets]
        ]
        return until + OVERDUE if ends and until + LATE >= max(ends) else until

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.open)))
        gone = number in self.carried()
        assert bool(self.line.leave(number)) == gone
        del self.open[number]

    @precondition(lambda self: self.away)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        bundle = self.away.pop(data.draw(st.integers(0, len(self.away) - 1)))
        here = [each for each in bundle.tickets if self.line.waits(each.number)]
        assert [each.number for each in here] == [
            each.number for each in bundle.tickets if each.number in self.open
        ]
        how = data.draw(st.sampled_from(["told", "again", "apart"]))
        if how == "told" or len(bundle.tickets) == 1:
            for each in here:
                self.line.answered(each.number)
                del self.open[each.number]
        elif how == "again":
            self.line.again(bundle.tickets)
            self.again |= {each.number for each in here}
        else:
            self.again |= {each.number for each in here}
            self.make(self.line.apart(bundle.tickets, Instant(self.now)), alone=True)
        self.line.back(bundle)

    @invariant()
    def sound(self) -> None:
        self.line.check()

    @invariant()
    def order_is_kept(self) -> None:
        if self.ordered:
            assert self.sent == sorted(self.sent)

    def teardown(self) -> None:
        if not hasattr(self, "line"):
            return
        while self.away:
            bundle = self.away.pop()
            for each in bundle.tickets:
                if self.line.waits(each.number):
                    self.line.answered(each.number)
                    del self.open[each.number]
            self.line.back(bundle)
            self.make(self.line.go(Instant(self.now)))
        self.make(self.line.go(Instant(self.now)))
        assert self.carried() == set(self.open), "somebody is left behind"


TestAccount = Account.TestCase
TestAccount.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


@given(
    st.lists(st.lists(st.binary(max_size=5), min_size=1, max_size=4), max_size=5),
    st.lists(st.integers(0, 5), max_size=6),
)
def test_what_came_is_dealt_out_to_the_last_item(
    bodies: list[list[bytes]], wants: list[int]
) -> None:
    parts = []
    for at, some in enumerate(bodies):
        batch = Batch.of(some)
        parts.append(ItemRun(100 * at, bytes(batch.offsets), bytes(batch.blob), failures=at))
    whole = [(part.start + at, body) for part in parts for at, body in enumerate(part_bodies(part))]
    *hands, rest = dealt(parts, wants)
    came = [
        [(part.start + at, body) for part in hand for at, body in enumerate(part_bodies(part))]
        for hand in (*hands, rest)
    ]
    assert [each for hand in came for each in hand] == whole
    assert all(len(hand) <= want for hand, want in zip(came, wants, strict=False))
    assert not rest or [len(hand) for hand in came[:-1]] == wants
    for hand in (*hands, rest):
        assert all(part.failures == part.start // 100 for part in hand)
