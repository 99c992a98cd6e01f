"""The rules that know no excuse: what each finds, and what it lets pass."""

import pytest
from strict import Strict

from snowmelt_world.check.history import Ended, History, Kind, Operation

TWO = Operation("p", Kind.PUT, ("a", "b"), 1, 2, priorities=(0, 0))
SECOND = 10**9


def get(values, called, process="g", held=None):
    return Operation(process, Kind.GET, tuple(values), called, called + 1, held=held)


def told(kind, values, called):
    return Operation("g", kind, tuple(values), called, called + 1)


@pytest.mark.parametrize(
    ("later", "words"),
    [
        ([told(Kind.ACK, "a", 7), get("a", 9, "h")], "a was acknowledged, and h gets it"),
        ([told(Kind.ACK, "a", 7), get("a", 8, "h")], ""),  # at once
        ([get("a", 9, "h")], "a is held by g, and h gets it"),
        ([told(Kind.BACK, "a", 7), get("a", 9, "h")], ""),
        ([get("a", 30, "h")], ""),
        ([told(Kind.BACK, "a", 7), get("b", 9, "h")], "h got b, and a was there before it"),
        ([told(Kind.BACK, "a", 7), get("", 9, "h")], "h got nothing, and a was there before it"),
        ([told(Kind.BACK, "a", 7), get("b", 8, "h")], ""),  # at once
        ([get("b", 9, "h")], ""),
    ],
)
def test_of_an_item_that_was_leased(later, words):
    found = Strict(History.of([TWO, get("a", 5, held=20), *later])).judge()
    assert found == [words] if words else not found


@pytest.mark.parametrize(("process", "passed"), [("p", True), ("q", False)])
def test_a_client_is_given_nothing_before_what_it_asked_to_put(process, passed):
    mine = Operation("p", Kind.PUT, ("x",), 5, 20, priorities=(0,))
    old = Operation("q", Kind.PUT, ("old",), 1, 2, priorities=(3,))
    found = Strict(History.of([old, mine, get(["old"], 6, process)])).judge()
    assert found == ([f"{process} got old, and x was there before it"] if passed else [])


def test_what_one_call_put_stands_together():
    between = Operation("q", Kind.PUT, ("c",), 1, 2, priorities=(0,))
    apart = [TWO, between, get("acb", 5)]
    found = Strict(History.of(apart)).judge()
    assert found == ["what is put with a in one call stands in several places"]
    assert Strict(History.of([TWO, between, get("cab", 5)])).judge() == []


@pytest.mark.parametrize(("bound", "refused"), [(2, True), (3, False)])
def test_a_put_is_refused_where_it_may_be_full(bound, refused):
    put = Operation("q", Kind.PUT, ("c",), 5, 6, Ended.FAILED)
    found = Strict(History.of([TWO, put])).judge(bound)
    assert found == ([] if refused else ["q is told that there is no room, and there was"])


def test_a_put_waits_only_while_there_is_no_room():
    put = Operation("q", Kind.PUT, ("c",), 5, 20 * SECOND)
    ack = Operation("g", Kind.ACK, ("a",), 7, 10 * SECOND)
    taken = [TWO, get("a", 5, held=99 * SECOND), ack, put]
    assert Strict(History.of(taken)).judge(2) == ["q waited 10.0 s for room that there was"]
    assert Strict(History.of([TWO, put])).judge(2) == []
