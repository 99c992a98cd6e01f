"""Histories of priority queues: a queue that works is right, and each corruption is found."""

from heapq import heappop, heappush
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snowmelt_world.check import Ended, History, Invalid, Kind, Operation, Valid, check_history
from snowmelt_world.check.heap import check_heap

PROPERTIES = ("conservation", "sequence", "linear", "heap", "leases")
LEASE = 400
STEP = 10


class Model:
    """One queue, one operation after another; each lies between its call and its answer."""

    def __init__(self, chance):
        self.chance = chance
        self.order = 0
        self.heap = []
        self.held = {}
        self.next = {}
        self.names = 0
        self.operations = []

    def times(self):
        at = self.order * STEP
        return at - self.chance.randint(0, STEP - 1), at + self.chance.randint(1, STEP)

    def add(self, kind, values, **more):
        called, returned = self.times()
        process = f"p{self.chance.randint(1, 3)}/{self.order}"
        self.operations.append(Operation(process, kind, tuple(values), called, returned, **more))

    def put(self):
        count = self.chance.randint(1, 3)
        rows = []
        self.order += 1
        first = self.order
        for _ in range(count):
            priority = self.chance.randint(0, 2)
            position = self.next.get(priority, 0)
            self.next[priority] = position + 1
            self.names += 1
            rows.append((priority, position, f"v{self.names}"))
            heappush(self.heap, rows[-1])
        orders = tuple(range(first, first + count))
        self.told(Kind.PUT, rows, orders)
        self.order += count

    def told(self, kind, rows, orders, **more):
        self.add(
            kind,
            [row[2] for row in rows],
            priorities=tuple(row[0] for row in rows),
            positions=tuple(row[1] for row in rows),
            orders=orders,
            **more,
        )

    def get(self):
        self.order += 1
        rows = [heappop(self.heap) for _ in range(min(len(self.heap), self.chance.randint(1, 2)))]
        orders = tuple(range(self.order, self.order + max(1, len(rows))))
        held = self.order * STEP - STEP + LEASE if rows else None
        self.told(Kind.GET, rows, orders, token=self.order if rows else None, held=held)
        for row in rows:
            self.held[row] = self.order
        self.order += len(orders)

    def end(self):
        if not self.held:
            return
        self.order += 1
        row = self.chance.choice(list(self.held))
        token = self.held.pop(row)
        if self.chance.random() < 0.6:
            self.add(Kind.ACK, [row[2]], token=token)
        else:
            self.add(Kind.BACK, [row[2]], orders=(self.order,), token=token)
            heappush(self.heap, row)
        self.order += 1

    def drain(self):
        while self.heap or self.held:
            (self.get if self.heap else self.end)()
        self.order += 2
        self.add(Kind.DRAIN, [])
        self.get()


def drawn(seed, steps=40):
    chance = Random(seed)
    model = Model(chance)
    for _ in range(steps):
        chance.choice((model.put, model.get, model.end, model.end))()
    model.drain()
    return model.operations


def verdicts(operations):
    shuffled = list(operations)
    Random(1).shuffle(shuffled)
    return check_history(History.of(shuffled), PROPERTIES)


def found(operations):
    return {one.property for one in verdicts(operations) if isinstance(one, Invalid)}


def changed(operations, index, **fields):
    copy = list(operations)
    copy[index] = msgspec.structs.replace(copy[index], **fields)
    return copy


def some(operations, kind, chance, *, values=True):
    places = [
        at for at, one in enumerate(operations) if one.kind is kind and bool(one.values) == values
    ]
    return chance.choice(places)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9))
def test_what_a_queue_that_works_does_is_right(seed):
    assert all(isinstance(one, Valid) for one in verdicts(drawn(seed)))


# --- corruptions ----------------------------------------------------------------------------------


def got_from_the_back(operations, chance):
    """Two elements of two gets change places."""
    del chance
    first = next(
        at
        for at, one in enumerate(operations)
        if one.kind is Kind.GET and one.values and one.priorities[0] == 0
    )
    one = operations[first]
    return changed(
        operations, first, orders=tuple(order + 10_000 for order in one.orders)
    )  # it is still there when all later ones are got


def nothing_found_though_there_was_something(operations, chance):
    at = some(operations, Kind.PUT, chance)
    put = operations[at]
    order = max(put.orders)
    empty = Operation("e", Kind.GET, (), put.called, put.returned, orders=(order,))
    return [*operations, empty]


def a_less_urgent_one_first(operations, chance):
    at = some(operations, Kind.PUT, chance)
    put = operations[at]
    new = Operation(
        "x", Kind.PUT, ("x",), put.called, put.called + 1,
        priorities=(9,), positions=(0,), orders=(0,),
    )  # fmt: skip
    got = Operation(
        "x", Kind.GET, ("x",), put.returned, put.returned + 1,
        priorities=(9,), positions=(0,), orders=(max(put.orders),), token=0,
    )  # fmt: skip
    ack = Operation("x", Kind.ACK, ("x",), put.returned + 2, put.returned + 3)
    return [*operations, new, got, ack]


def got_before_it_was_put(operations, chance):
    at = some(operations, Kind.PUT, chance)
    orders = tuple(order + 100_000 for order in operations[at].orders)
    return changed(operations, at, orders=orders)


def an_order_told_twice(operations, chance):
    one, other = some(operations, Kind.PUT, chance), some(operations, Kind.GET, chance)
    order = operations[other].orders[0]
    return changed(operations, one, orders=(order,) * len(operations[one].values))


def a_clients_own_order_turned(operations, chance):
    del chance
    first, last = operations[0], operations[-1]
    early = Operation("z", Kind.GET, (), first.called, first.called, orders=(last.orders[0] + 5,))
    late = Operation("z", Kind.GET, (), last.returned, last.returned + 1, orders=(0,))
    return [*operations, early, late]


def an_element_lost(operations, chance):
    at = some(operations, Kind.ACK, chance)
    value = operations[at].values[0]
    return [
        one for one in operations if value not in one.values or one.kind is Kind.PUT
    ] or operations


def delivered_after_an_acknowledgement(operations, chance):
    ack = operations[some(operations, Kind.ACK, chance)]
    late = ack.returned + 100_000
    return [*operations, Operation("x", Kind.GET, ack.values, late, late + 1, token=10**9)]


def two_live_leases(operations, chance):
    get = operations[some(operations, Kind.GET, chance)]
    other = Operation(
        "x", Kind.GET, get.values[:1], get.called, get.returned, token=get.token + 1, held=None
    )
    return [*operations, other]


def a_token_that_shrinks(operations, chance):
    get = operations[some(operations, Kind.GET, chance)]
    late = get.held + 1
    return [*operations, Operation("x", Kind.GET, get.values[:1], late, late + 1, token=0)]


def two_elements_at_one_place(operations, chance):
    at = some(operations, Kind.PUT, chance)
    put = operations[at]
    other = Operation(
        "x", Kind.PUT, ("x",), put.called, put.returned,
        priorities=put.priorities[:1], positions=put.positions[:1],
    )  # fmt: skip
    return [*operations, other]


def an_element_invented(operations, chance):
    get = operations[some(operations, Kind.GET, chance)]
    return [*operations, Operation("x", Kind.GET, ("never",), get.called, get.returned)]


CORRUPTIONS = (
    (got_from_the_back, {"heap", "linear", "sequence"}),
    (nothing_found_though_there_was_something, {"heap"}),
    (a_less_urgent_one_first, {"heap"}),
    (got_before_it_was_put, {"heap"}),
    (an_order_told_twice, {"sequence"}),
    (a_clients_own_order_turned, {"sequence"}),
    (an_element_lost, {"conservation"}),
    (delivered_after_an_acknowledgement, {"conservation"}),
    (two_live_leases, {"leases"}),
    (a_token_that_shrinks, {"leases"}),
    (two_elements_at_one_place, {"leases"}),
    (an_element_invented, {"conservation"}),
)


@pytest.mark.parametrize(
    ("corrupt", "finders"), CORRUPTIONS, ids=[one.__name__ for one, _ in CORRUPTIONS]
)
def test_each_corruption_is_found(corrupt, finders):
    for seed in range(6):
        operations = corrupt(drawn(seed), Random(seed))
        assert found(operations) & finders, (corrupt.__name__, seed, found(operations))


# --- single rules ---------------------------------------------------------------------------------


def put(value, order, priority=0, position=0):
    return Operation(
        "p", Kind.PUT, (value,), 1, 2,
        priorities=(priority,), positions=(position,), orders=(order,),
    )  # fmt: skip


def got(value, order, priority=0, position=0):
    return Operation(
        "g", Kind.GET, (value,), 3, 4,
        priorities=(priority,), positions=(position,), orders=(order,),
    )  # fmt: skip


def heap(*operations):
    return check_history(History.of(operations), ["heap"])[0]


def test_what_came_back_may_not_be_passed_from_then_on():
    operations = (
        put("a", 0),
        put("b", 1, position=1),
        put("c", 2, position=2),
        got("a", 3),
        got("b", 4, position=1),
        Operation("g", Kind.BACK, ("a",), 3, 4, orders=(5,)),
    )
    assert heap(*operations) == Valid("heap")
    assert isinstance(heap(*operations, got("c", 6, position=2)), Invalid)
    without_order = [msgspec.structs.replace(one, orders=()) for one in operations[-1:]]
    assert heap(*operations[:-1], *without_order, got("c", 6, position=2)) == Valid("heap")


def test_what_an_unknown_get_may_have_had_may_be_passed_from_then_on():
    had = Operation("u", Kind.GET, ("a",), 3, None, Ended.UNKNOWN, orders=(2,))
    a, b = put("a", 0), put("b", 1, position=1)
    assert isinstance(heap(a, b, got("b", 3, position=1)), Invalid)
    assert heap(a, b, had, got("b", 3, position=1)) == Valid("heap")


def test_what_is_as_urgent_goes_by_its_position():
    a, b = put("a", 0), put("b", 1, position=1)
    assert heap(a, b, got("a", 2), got("b", 3, position=1)) == Valid("heap")
    assert isinstance(heap(a, b, got("b", 2, position=1), got("a", 3)), Invalid)


@pytest.mark.parametrize(("other", "right"), [("k2", True), ("k1", False)])
def test_what_one_get_of_a_phase_gave_back_another_of_it_may_pass(other, right):
    def one(process, kind, value, position, called, order, **more):
        return Operation(
            process, kind, (value,), called, called + 50, priorities=(0,), positions=(position,),
            orders=(order,), **more,
        )  # fmt: skip

    puts = [one("p", Kind.PUT, value, at, 100 * at, 1) for at, value in enumerate("abc")]
    first = one("k1", Kind.GET, "a", 0, 1_000, 2)
    second = one(other, Kind.GET, "c", 2, 1_000, 2)
    over = msgspec.structs.replace(first if right else second, over=1)
    gets = [over, second] if right else [first, over]
    assert isinstance(check_heap(History.of([*puts, *gets])), Valid) is right


def unplaced(called, returned, over=1):
    """A get that came again with nothing of what it had, and of no known order."""
    return Operation("u", Kind.GET, (), called, returned, over=over)


@pytest.mark.parametrize(
    ("over", "right"),
    [
        (unplaced(2, 5), True),
        (unplaced(0, 3), True),
        (unplaced(5, 9), False),  # called when the other was answered
        (unplaced(0, 2), False),  # answered before the other was called
        (unplaced(2, 5, over=0), False),
    ],
    ids=str,
)
def test_what_a_get_of_no_known_order_had_may_be_passed_while_it_lasted(over, right):
    a, b = put("a", 0), put("b", 1, position=1)
    assert isinstance(heap(a, b, over, got("b", 2, position=1)), Valid) is right
    nothing = Operation("g", Kind.GET, (), 3, 4, orders=(2,))
    assert isinstance(heap(a, over, nothing), Valid) is right


def test_a_get_of_no_known_order_had_no_more_than_it_was_over_and_nothing_when_it_is_answered():
    a, b, c = put("a", 0), put("b", 1, position=1), put("c", 2, position=2)
    passed = got("c", 3, position=2)
    assert isinstance(heap(a, b, c, unplaced(2, 5), passed), Invalid)
    assert heap(a, b, c, unplaced(2, 5, over=2), passed) == Valid("heap")
    later = msgspec.structs.replace(got("d", 5, position=3), called=6, returned=7)
    both = heap(a, b, c, put("d", 4, position=3), unplaced(2, 5, over=2), passed, later)
    assert isinstance(both, Invalid)
    assert both.example[-1] == later


def test_a_get_of_no_known_order_had_nothing_that_was_put_when_it_was_answered():
    late = [
        msgspec.structs.replace(put(value, order, position=order), called=5, returned=6)
        for order, value in enumerate("ab")
    ]
    passed = msgspec.structs.replace(got("b", 2, position=1), called=3, returned=9)
    assert isinstance(heap(*late, unplaced(2, 4), passed), Invalid)
    assert heap(*late, unplaced(2, 5), passed) == Valid("heap")
