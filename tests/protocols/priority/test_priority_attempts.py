"""Of several attempts at one put one counts, whoever comes back with which, and when."""

from itertools import permutations

import pytest
from priority_bench import Nodes, bodies, receipt

from snowmelt.core.batch import Batch
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.record import BULK, Write
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.attempts import chosen, decided
from snowmelt.protocols.priority.batches import Share, union
from snowmelt.protocols.priority.calls import PutDone
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import Attempt, Elements, Mark, Origin, Stored
from snowmelt.protocols.priority.settings import State
from snowmelt.protocols.priority.shelf import Shelf

SMALL = Limits(block=1, deal=0, arity=2)
PUT = OperationId(NodeId("c"), 1)
COUNT = 12
FIRST, SECOND = ("n1", "n2", "n3"), ("n1", "n4", "n5")


def share(start: int, stop: int) -> tuple[Share, ...]:
    return (Share(0, (Interval(start, stop),)),)


def attempt(
    start: int, stamp: int, state: State = State.FREE, *, first: int = 0, count: int = 1
) -> Attempt:
    origin = Origin(PUT, first, count, again=True)
    return Attempt(origin, share(start, start + count)[0], stamp, state)


# --- what counts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "told",
    [
        (attempt(4, 10), attempt(9, 12)),  # the last
        (attempt(40, 12), attempt(9, 16)),  # an earlier one that a door went on with since
        (attempt(40, 16), attempt(9, 3, State.GONE)),  # what was got
        (attempt(40, 16, State.VOID), attempt(40, 16), attempt(9, 3)),  # what is not void
        (attempt(40, 16), attempt(9, 18), attempt(9, 17, State.VOID)),  # nor was, when last seen
    ],
)
def test_all_choose_the_same_attempt_in_whatever_order_they_hear_of_them(
    told: tuple[Attempt, ...],
) -> None:
    for order in permutations(told):
        (choice,) = chosen(order)
        assert choice.share == share(9, 10)[0]


def test_each_element_of_a_put_has_an_attempt_that_counts() -> None:
    told = [attempt(0, 2, count=6), attempt(50, 5, first=2, count=2), attempt(1, 7, first=1)]
    counts = {choice.origin.first: choice.share for choice in chosen(told)}
    at = {first: one.intervals[0].start for first, one in counts.items()}
    assert at == {0: 0, 1: 1, 2: 50, 4: 4}
    winners, beaten = decided(told)
    assert beaten == share(2, 4)
    assert winners == share(50, 52)


def test_what_is_void_everywhere_counts_nowhere() -> None:
    assert list(chosen([attempt(4, 9, State.VOID), attempt(4, 9)])) == []


# --- on a shelf -----------------------------------------------------------------------------------


def shelf_with(*marks: Mark) -> Shelf:
    shelf = Shelf(b"q/")
    some = Batch.of([b"one", b"two"])
    shelf.store(Elements(share(4, 6), (Origin(PUT, 0, 2),), bytes(some.offsets), bytes(some.blob)))
    for mark in marks:
        shelf.mark(mark)
    return shelf


def mark(epoch: int, state: State, start: int = 4, stop: int = 6, token: int = 0) -> Mark:
    return Mark(share(start, stop), epoch, 1, state, token)


@pytest.mark.parametrize(
    ("marks", "state"),
    [
        ((mark(8, State.VOID), mark(12, State.LEASED, token=7)), State.FREE),
        ((mark(8, State.VOID), mark(8, State.LEASED, token=7)), State.VOID),
        ((mark(8, State.VOID), mark(5, State.FREE), mark(3, State.VOID)), State.VOID),
        ((mark(8, State.VOID), mark(2, State.GONE, token=7)), State.GONE),
        ((mark(8, State.VOID), mark(9, State.LEASED), mark(11, State.VOID)), State.VOID),
    ],
)
def test_a_shelf_knows_the_same_in_whatever_order_it_hears_of_a_position(
    marks: tuple[Mark, ...], state: State
) -> None:
    for order in permutations(marks):
        shelf = shelf_with(*order)
        assert {one.state for one in shelf.made_by(PUT)} == {state}
        again = Shelf(b"q/")
        for change in shelf.changes(0):
            if isinstance(change, Write) and not change.key.startswith(BULK):
                again.restore(change.key, change.value)
        assert again.made_by(PUT) == shelf.made_by(PUT)


def test_of_what_is_gone_before_it_came_it_is_known_who_made_it() -> None:
    shelf = Shelf(b"q/")
    shelf.mark(mark(8, State.GONE))
    some = Batch.of([b"one", b"two"])
    elements = Elements(share(4, 6), (Origin(PUT, 0, 2),), bytes(some.offsets), bytes(some.blob))
    assert (shelf.store(elements), shelf.store(elements)) == (None, None)
    (known,) = shelf.made_by(PUT)
    assert (known.state, known.share) == (State.GONE, share(4, 6)[0])
    kept = Shelf(b"q/")
    for change in shelf.changes(0):
        if isinstance(change, Write):
            kept.restore(change.key, change.value)
    assert kept.made_by(PUT) == [known]
    assert kept.changes(0) == []


def test_of_a_stretch_that_is_void_in_part_the_rest_still_counts() -> None:
    shelf = shelf_with(mark(1, State.VOID, 4, 5))
    (choice,) = chosen(shelf.made_by(PUT))
    assert choice.share == share(5, 6)[0]


# --- on whole nodes -------------------------------------------------------------------------------


def begun_twice() -> tuple[Nodes, list[int]]:
    """Puts that some have of a first attempt, and others of a second; nobody was told."""
    nodes = Nodes(5, SMALL)
    nodes.view(*FIRST)
    nodes.open("n1", replicas=1, lease=10**12)
    nodes.lost = lambda _source, target, message: type(message) is Stored and target == "n1"
    asked = [nodes.ask("n1", nodes.put_call("n1", (0, b"%d" % one))) for one in range(COUNT)]
    nodes.pass_time(1)
    nodes.view(*SECOND)
    nodes.pass_time(1)
    assert any(nodes.told(number) is None for number in asked)
    return nodes, asked


def test_an_older_attempt_that_was_answered_stays_when_a_later_one_comes_back() -> None:
    nodes, asked = begun_twice()
    nodes.lost = lambda *_: False
    nodes.view(*FIRST)
    nodes.pass_time(2)
    done = [nodes.told(number) for number in asked]
    assert all(isinstance(one, PutDone) for one in done), done
    nodes.view("n1", "n2", "n3", "n4", "n5")
    leased = nodes.get("n1", 2 * COUNT, patience=1)
    assert sorted(bodies(leased)) == sorted(b"%d" % one for one in range(COUNT))
    assert receipt(leased).shares == union([one for put in done for one in put.shares])


def test_an_older_attempt_that_is_leased_stays_when_a_later_one_comes_back() -> None:
    nodes, _ = begun_twice()
    nodes.restart("n1")  # nobody goes on with the puts
    nodes.lost = lambda *_: False
    nodes.view(*FIRST)
    leased = nodes.get("n2", 2 * COUNT)
    nodes.view("n1", "n2", "n3", "n4", "n5")
    others = bodies(nodes.get("n3", 2 * COUNT))
    assert not set(bodies(leased)) & set(others)
    assert nodes.settle("n4", done=(receipt(leased),)) == calls.Settled()
    nodes.view(*SECOND)
    nodes.view("n1", "n2", "n3", "n4", "n5")
    assert not set(bodies(leased)) & set(bodies(nodes.get("n1", 2 * COUNT)))


def test_what_was_got_of_an_older_attempt_is_not_got_of_a_later_one() -> None:
    nodes, _ = begun_twice()
    nodes.restart("n1")
    nodes.lost = lambda *_: False
    nodes.view(*FIRST)
    leased = nodes.get("n2", 2 * COUNT)
    assert nodes.settle("n2", done=(receipt(leased),)) == calls.Settled()
    nodes.view("n1", "n2", "n3", "n4", "n5")
    assert not set(bodies(leased)) & set(bodies(nodes.get("n3", 2 * COUNT)))
