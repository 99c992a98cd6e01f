from collections import Counter
from random import Random

import pytest
from brute import is_linearizable
from draw import history as drawn

from snowmelt_world.check.fifo import check_fifo
from snowmelt_world.check.history import Ended, History, Kind, Operation
from snowmelt_world.check.verdict import Invalid, Undecided, Valid

PATTERNS = ("never put", "before it was put", "twice", "different orders", "found nothing")


def put(values, called, returned, ended=Ended.SUCCEEDED):
    return Operation("p", Kind.PUT, tuple(values), called, returned, ended)


def get(values, called, returned, ended=Ended.SUCCEEDED):
    return Operation("g", Kind.GET, tuple(values), called, returned, ended)


def verdict_of(*operations):
    return check_fifo(History.of(operations))


def compare(count, seed, batches=(1, 1, 3)):
    """Judges random histories twice; returns how often each verdict came."""
    chance = Random(seed)
    seen = Counter()
    for number in range(count):
        history = drawn(chance, batches=batches)
        verdict = check_fifo(history)
        legal = is_linearizable(history, with_lost_gets=False)
        told = f"history {number} of seed {seed}: {verdict}\n" + "\n".join(map(repr, history))
        match verdict:
            case Valid():
                assert legal, told
            case Undecided():
                assert history.unknown(Kind.GET), told
                assert not legal, told
            case Invalid():
                assert not is_linearizable(history, with_lost_gets=True), told
                assert set(verdict.example) <= set(history), told
                # The example alone is enough.
                assert isinstance(check_fifo(History.of(verdict.example)), Invalid), told
                seen[next(words for words in PATTERNS if words in verdict.sentence)] += 1
        seen[type(verdict).__name__] += 1
    return seen


def test_it_agrees_with_brute_force():
    seen = compare(6_000, seed=1)
    assert seen["Valid"] > 1_000
    assert seen["Invalid"] > 1_000
    assert seen["Undecided"] > 25
    assert all(seen[words] > 25 for words in PATTERNS), seen


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("batches", [(1,), (1, 1, 3), (3, 4)])
def test_it_agrees_with_brute_force_for_long(batches):
    compare(300_000, seed=2, batches=batches)


def in_order(count):
    """A legal history of single calls, the queue never empty for long."""
    puts = [put([number], 10 * number, 10 * number + 15) for number in range(count)]
    gets = [get([number], 10 * number + 40, 10 * number + 55) for number in range(count)]
    return [*puts, *gets]


def test_overlapping_calls_in_order_are_legal():
    assert verdict_of(*in_order(100)) == Valid("fifo")


def test_nothing_is_legal():
    assert verdict_of() == Valid("fifo")


def test_a_value_from_nowhere_is_found():
    odd = get([-1], 500, 510)
    verdict = verdict_of(*in_order(100), odd)
    assert isinstance(verdict, Invalid)
    assert verdict.example == (odd,)


def test_a_value_of_a_failed_put_is_found():
    assert isinstance(verdict_of(put("a", 1, 2, Ended.FAILED), get("a", 3, 4)), Invalid)


def test_a_value_got_before_its_put_is_found():
    early, late = get("a", 1, 2), put("a", 3, 4)
    verdict = verdict_of(late, early)
    assert isinstance(verdict, Invalid)
    assert verdict.example == (early, late)


def test_a_value_got_twice_is_found():
    again = get([50], 2000, 2010)
    operations = in_order(100)
    verdict = verdict_of(*operations, again)
    assert isinstance(verdict, Invalid)
    assert verdict.example == (operations[150], again)


def test_two_values_that_change_places_are_found():
    operations = in_order(100)
    operations[150], operations[160] = get([60], 620, 625), get([50], 640, 655)
    verdict = verdict_of(*operations)
    assert isinstance(verdict, Invalid)
    assert len(verdict.example) == 4
    assert operations[150] in verdict.example or operations[160] in verdict.example


def test_a_value_left_behind_is_found():
    operations = in_order(100)
    del operations[150]
    verdict = verdict_of(*operations)
    assert isinstance(verdict, Invalid)
    assert operations[50] in verdict.example
    assert len(verdict.example) == 3


def test_an_empty_get_while_a_value_waits_is_found():
    wrong = get("", 3, 4)
    verdict = verdict_of(put("a", 1, 2), wrong, get("a", 5, 6))
    assert isinstance(verdict, Invalid)
    assert verdict.example[0] == wrong


def test_an_empty_get_is_covered_by_values_that_take_turns():
    relay = [
        operation
        for n in range(9)
        for operation in (
            put([n], 10 * n, 10 * n + 1),
            get([n], 10 * n + 15, 10 * n + 16),
        )
    ]
    wrong = get("", 10, 70)
    verdict = verdict_of(*relay, wrong)
    assert isinstance(verdict, Invalid)
    assert verdict.example[0] == wrong
    assert len(verdict.example) <= 7
    # One gap, one instant wide, and the get may have hit it.
    relay[7] = get([3], 41, 46)
    assert verdict_of(*relay, wrong) == Valid("fifo")


def test_an_empty_get_at_the_very_edge_of_a_value_is_legal():
    assert verdict_of(put("a", 1, 5), get("", 5, 5), get("a", 9, 10)) == Valid("fifo")
    assert verdict_of(put("a", 1, 5), get("a", 9, 10), get("", 9, 9)) == Valid("fifo")


def test_the_order_within_a_batch_counts():
    assert verdict_of(put("abc", 1, 2), get("abc", 3, 4)) == Valid("fifo")
    assert verdict_of(put("abc", 1, 2), get("a", 3, 4), get("bc", 5, 6)) == Valid("fifo")
    assert isinstance(verdict_of(put("abc", 1, 2), get("acb", 3, 4)), Invalid)
    assert isinstance(verdict_of(put("abc", 1, 2), get("b", 3, 4), get("ac", 5, 6)), Invalid)
    assert isinstance(verdict_of(put("a", 1, 2), put("b", 3, 4), get("ba", 5, 6)), Invalid)


def test_a_circle_of_four_through_batches_is_found():
    # No two of these values are in disorder; the four of them are.
    operations = (put("ab", 0, 9), put("cd", 0, 9), get("bc", 0, 9), get("da", 0, 9))
    assert not is_linearizable(History.of(operations), with_lost_gets=False)
    verdict = verdict_of(*operations)
    assert isinstance(verdict, Invalid)
    assert set(verdict.example) == set(operations)


def test_what_is_behind_in_a_batch_tells_when_a_value_was_put():
    # d waits for b, and b for a, which is got at 5: so d is there at 2.
    operations = put("d", 0, 1), put("abc", 0, 2), get("bd", 1, 5), get("ac", 5, 5)
    wrong = get("", 2, 2)
    assert verdict_of(*operations) == Valid("fifo")
    verdict = verdict_of(*operations, wrong)
    assert isinstance(verdict, Invalid)
    assert verdict.example[0] == wrong


def test_a_get_before_a_put_forces_an_order_through_batches():
    # u is got before x, and x put before w, but w was got when u was not yet put.
    operations = put("xw", 0, 9), put("u", 5, 6), get("ux", 0, 9), get("w", 0, 3)
    assert not is_linearizable(History.of(operations), with_lost_gets=False)
    assert isinstance(verdict_of(*operations), Invalid)


def test_a_long_batch_still_has_a_small_example():
    values = [str(number) for number in range(1000)]
    swapped = [*values[:998], values[999], values[998]]
    verdict = verdict_of(
        put(values, 1, 2), *(get([v], 10 * n, 10 * n + 5) for n, v in enumerate(swapped, 1))
    )
    assert isinstance(verdict, Invalid)
    assert len(verdict.example) == 3


def test_a_put_of_unknown_outcome_may_take_effect_late_or_never():
    lost = put("a", 1, 2, Ended.UNKNOWN)
    assert verdict_of(lost, put("b", 3, 4), get("b", 5, 6), get("", 7, 8)) == Valid("fifo")
    assert verdict_of(lost, put("b", 3, 4), get("b", 5, 6), get("a", 7, 8)) == Valid("fifo")
    assert isinstance(verdict_of(lost, get("a", 5, 6), get("a", 7, 8)), Invalid)


def test_a_get_of_unknown_outcome_makes_a_missing_value_undecided():
    history = put("a", 1, 2), put("b", 3, 4), get("b", 7, 8)
    assert isinstance(verdict_of(*history), Invalid)
    assert isinstance(verdict_of(*history, get("", 5, None, Ended.UNKNOWN)), Undecided)
    # Called too late, it explains nothing; nor does one that failed.
    assert isinstance(verdict_of(*history, get("", 9, None, Ended.UNKNOWN)), Invalid)
    assert isinstance(verdict_of(*history, get("", 5, 6, Ended.FAILED)), Invalid)


def test_equal_values_are_undecided():
    assert isinstance(verdict_of(put("a", 1, 2), put("a", 3, 4), get("a", 5, 6)), Undecided)
