from random import Random

import msgspec
import pytest
from draw import history as drawn

from snowmelt_world.check.fifo import check_fifo
from snowmelt_world.check.fifo_witness import check_fifo_witness
from snowmelt_world.check.history import Ended, History, Kind, Operation
from snowmelt_world.check.verdict import Invalid, Undecided, Valid


def put(values, called, returned, position, ended=Ended.SUCCEEDED):
    return Operation("p", Kind.PUT, tuple(values), called, returned, ended, position)


def get(values, called, returned, position, ended=Ended.SUCCEEDED):
    return Operation("g", Kind.GET, tuple(values), called, returned, ended, position)


def verdict_of(*operations):
    return check_fifo_witness(History.of(operations))


def test_concurrent_calls_in_the_order_of_the_witness_are_legal():
    assert verdict_of(
        put("a", 1, 9, 2), put("b", 1, 9, 1), get("b", 2, 9, 3), get("a", 2, 9, 5), get("", 3, 9, 6)
    ) == Valid("fifo_witness")


def test_calls_that_touch_are_concurrent():
    assert verdict_of(put("a", 5, 6, 1), put("b", 4, 5, 2)) == Valid("fifo_witness")


def test_the_latest_call_counts_and_not_the_last():
    operations = put("a", 5, 9, 1), put("b", 1, 9, 2), put("c", 3, 4, 3)
    verdict = verdict_of(*operations)
    assert isinstance(verdict, Invalid)
    assert verdict.example == (operations[0], operations[2])


def test_equal_values_are_no_trouble():
    assert verdict_of(put("a", 1, 2, 1), put("a", 3, 4, 2), get("aa", 5, 6, 3)) == Valid(
        "fifo_witness"
    )


@pytest.mark.parametrize(
    ("operations", "example"),
    [
        # another order than put
        ((put("a", 1, 2, 1), put("b", 3, 4, 2), get("b", 5, 6, 3)), (0, 2)),
        # got with nothing there
        ((get("a", 1, 9, 1), put("a", 1, 9, 2)), (0,)),
        # nothing got with something there
        ((put("a", 1, 2, 1), get("", 3, 4, 2)), (0, 1)),
        # against real time
        ((put("a", 3, 4, 1), put("b", 1, 2, 2)), (0, 1)),
        # one position twice
        ((put("a", 1, 2, 1), put("b", 3, 4, 1)), (0, 1)),
        # within a batch
        ((put("ab", 1, 2, 1), get("ba", 3, 4, 2)), (0, 1)),
    ],
)
def test_each_violation_is_found(operations, example):
    verdict = verdict_of(*operations)
    assert isinstance(verdict, Invalid)
    assert verdict.example == tuple(operations[index] for index in example)


def test_without_positions_it_is_undecided():
    assert isinstance(verdict_of(put("a", 1, 2, None)), Undecided)


def test_what_may_not_have_happened_is_left_out():
    lost_put = put("a", 1, 2, None, Ended.UNKNOWN)
    lost_get = get("", 1, 2, None, Ended.UNKNOWN)
    fine = put("b", 3, 4, 1), get("b", 5, 6, 2)
    assert verdict_of(lost_put, lost_get, *fine) == Valid("fifo_witness")


def test_an_unknown_operation_with_a_position_takes_part():
    assert verdict_of(
        put("a", 1, 2, 1, Ended.UNKNOWN), get("a", 1, None, 2, Ended.UNKNOWN), get("", 3, 4, 3)
    ) == Valid("fifo_witness")


def test_what_an_unplaced_operation_may_explain_is_undecided():
    lost_get = get("", 1, 2, None, Ended.UNKNOWN)
    assert isinstance(verdict_of(put("a", 1, 2, 1), lost_get, get("", 5, 6, 2)), Undecided)
    lost_put = put("a", 1, 2, None, Ended.UNKNOWN)
    assert isinstance(verdict_of(lost_put, get("a", 5, 6, 2)), Undecided)
    # It explains nothing here: its value was never seen, and time runs one way.
    assert isinstance(verdict_of(lost_put, get("b", 5, 6, 2)), Invalid)
    backwards = put("a", 3, 4, 1), put("b", 1, 2, 2)
    assert isinstance(verdict_of(*backwards, lost_get), Invalid)


def test_a_valid_witness_is_never_contradicted_from_outside():
    chance = Random(5)
    valid = 0
    for _ in range(20_000):
        operations = [one for one in drawn(chance, operations=4) if one.ended is Ended.SUCCEEDED]
        # An order by a random instant within each call: the likeliest to be right.
        order = sorted(
            operations, key=lambda one: (chance.randint(one.called, one.until), chance.random())
        )
        placed = [msgspec.structs.replace(one, position=at) for at, one in enumerate(order)]
        history = History.of(placed)
        if isinstance(check_fifo_witness(history), Valid):
            valid += 1
            assert isinstance(check_fifo(history), Valid)
    assert valid > 1_000
