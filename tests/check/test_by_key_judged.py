"""What the checks of order and limits by key find, and what they let pass."""

from typing import Any

from snowmelt.core.instant import SECOND
from snowmelt_world.check.by_key import (
    check_at_once,
    check_fair,
    check_in_order_by_key,
    check_per_second,
)
from snowmelt_world.check.history import Ended, History, Kind, Operation
from snowmelt_world.check.verdict import Valid


def op(kind: Kind, value: str, called: int, returned: int | None, **more: Any) -> Operation:
    return Operation("p", kind, (value,), called, returned, **more)


def put(value: str, at: int, key: str) -> Operation:
    return op(Kind.PUT, value, at, at, positions=(at,), keys=(key,))


def in_order(*operations: Operation) -> bool:
    puts = put("a", 0, "k"), put("b", 1, "k"), put("c", 2, "other"), put("d", 3, "")
    return isinstance(check_in_order_by_key(History.of([*puts, *operations])), Valid)


def at_once(most: int, *operations: Operation, by_key: bool = False) -> bool:
    puts = put("a", 0, "k"), put("b", 1, "k"), put("c", 2, "other")
    found = check_at_once(History.of([*puts, *operations]), most, by_key=by_key)
    return isinstance(found, Valid)


def get(value: str, called: int, returned: int, token: int = 1, held: int = 100) -> Operation:
    return op(Kind.GET, value, called, returned, token=token, held=held)


def test_the_next_of_a_key_may_come_once_somebody_began_to_acknowledge_the_last() -> None:
    first, second = get("a", 10, 11), get("b", 20, 30, 2)
    assert not in_order(first, second)
    assert not in_order(first, second, op(Kind.ACK, "a", 31, 32))
    assert in_order(first, second, op(Kind.ACK, "a", 29, 40))
    assert in_order(first, second, op(Kind.ACK, "a", 29, None, ended=Ended.UNKNOWN))
    assert not in_order(first, second, op(Kind.ACK, "a", 29, 40, ended=Ended.FAILED))
    assert not in_order(first, second, op(Kind.BACK, "a", 15, 16))


def together(*values: str, at: int) -> Operation:
    return Operation("p", Kind.GET, values, at, at + 1, token=at, held=100)


def test_several_of_a_key_may_come_with_one_get() -> None:
    both, again = together("a", "b", at=10), together("a", at=20)
    assert in_order(both)
    assert in_order(both, op(Kind.ACK, "b", 15, 16), again)
    assert not in_order(together("a", at=10), together("b", at=20))
    assert not in_order(again, together("b", "c", at=30), op(Kind.ACK, "a", 40, 41))


def test_other_keys_go_on_and_what_has_none_does() -> None:
    assert in_order(get("a", 10, 11), get("c", 12, 13, 2), get("d", 12, 13, 3))


def test_what_nobody_got_holds_up_those_behind_it() -> None:
    assert not in_order(get("b", 10, 11))


def test_in_hand_is_what_is_so_for_certain() -> None:
    assert not at_once(1, get("a", 1, 2), get("c", 3, 4, 2))
    assert at_once(1, get("a", 1, 2, held=4), get("c", 3, 4, 2))
    assert at_once(1, get("a", 1, 2), get("c", 3, 4, 2), op(Kind.ACK, "a", 4, 9, token=1))
    assert not at_once(1, get("a", 1, 2), get("c", 3, 4, 2), op(Kind.ACK, "a", 5, 9, token=1))
    assert at_once(1, get("a", 1, 2), get("c", 3, 4, 2), op(Kind.BACK, "a", 3, 9, token=1))
    assert at_once(2, get("a", 1, 2), get("c", 3, 4, 2))


def test_by_key_each_key_counts_for_itself() -> None:
    assert at_once(1, get("a", 1, 2), get("c", 3, 4, 2), by_key=True)
    assert not at_once(1, get("a", 1, 2), get("b", 3, 4, 2), by_key=True)


def test_a_lease_that_is_told_twice_is_one() -> None:
    assert at_once(1, get("a", 1, 2), get("a", 3, 4))


def test_in_no_second_are_more_than_may_be() -> None:
    def within(most: int, *times: int) -> bool:
        gets = [get(str(at), at, at + 10, at) for at in times]
        return isinstance(check_per_second(History.of(gets), most, by_key=False), Valid)

    assert within(2, 0, 10, SECOND)
    assert within(2, 0, 10, SECOND - 9)
    assert not within(2, 0, 10, SECOND - 11)
    assert not within(2, 0, SECOND // 2, SECOND, SECOND + 10, SECOND + 20)


def fair(*operations: Operation, **weights: int) -> bool:
    puts = [put(value, 0, value[0]) for value in ("k1", "k2", "k3", "o1", "o2")]
    return isinstance(check_fair(History.of([*puts, *operations]), weights), Valid)


def test_who_has_more_in_hand_than_another_that_is_ready_does_not_come_next() -> None:
    first = get("k1", 10, 11)
    assert not fair(first, get("k2", 20, 21, 2))
    assert fair(first, get("o1", 20, 21, 2), get("k2", 30, 31, 3))
    assert fair(first, get("k2", 20, 21, 2), k=2)
    assert not fair(first, get("k2", 20, 21, 2), get("k3", 30, 31, 3), k=2)
    assert not fair(together("k1", "k2", at=10))
    assert fair(together("k1", "o1", "k2", at=10))


def test_what_may_have_been_is_no_unfair_turn() -> None:
    first, second = get("k1", 10, 11), get("k2", 20, 30, 2)
    assert fair(first, second, op(Kind.ACK, "k1", 29, 40, token=1)), "it may have ended before"
    assert not fair(first, second, op(Kind.ACK, "k1", 30, 40, token=1))
    others = get("o1", 25, 40, 3), get("o2", 25, 40, 4)
    assert fair(first, second, *others), "neither was ready all the time"
    over = get("o1", 2, 3, 5), get("o2", 2, 3, 6)
    ends = op(Kind.ACK, "o1", 4, 5, token=5), op(Kind.ACK, "o2", 4, 5, token=6)
    assert fair(*over, *ends, first, second), "both have ended"
    back = op(Kind.BACK, "o1", 4, 5, token=5), op(Kind.ACK, "o2", 4, 5, token=6)
    assert not fair(*over, *back, first, second)
