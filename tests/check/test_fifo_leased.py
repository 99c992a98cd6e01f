from collections import Counter
from random import Random

import pytest
from draw import history as drawn
from msgspec.structs import replace

from snowmelt_world.check.fifo_leased import check_fifo_leased
from snowmelt_world.check.history import Ended, History, Kind, Operation
from snowmelt_world.check.verdict import Invalid, Undecided, Valid

RULES = ("told twice", "later positions", "one get holds", "was got before it")


def put(values, called, returned, position=None, ended=Ended.SUCCEEDED, rank=None):
    ranks = () if rank is None else (rank,) * len(values)
    return Operation("p", Kind.PUT, tuple(values), called, returned, ended, position, ranks)


def get(values, called, returned, ended=Ended.SUCCEEDED):
    return Operation("g", Kind.GET, tuple(values), called, returned, ended)


def verdict_of(*operations):
    return check_fifo_leased(History.of(operations))


# --- brute force: every pair, straight from the rules ---------------------------------------------


def is_right(history):
    """Whether no pair of puts, or of items, breaks a rule; gets that name nothing are passed over.

    O(n²).
    """
    puts = history.attempted(Kind.PUT)
    told = [one for one in puts if one.ended is Ended.SUCCEEDED and one.position is not None]
    for one in told:
        for other in told:
            if one is other:
                continue
            if one.position <= other.position < one.position + len(one.values):
                return False
            alike = one.priorities[:1] == other.priorities[:1]
            if alike and one.until < other.called and other.position < one.position:
                return False
    items = [(one, place) for one in puts for place in range(len(one.values))]
    return not any(breaks(history, a, b) for a in items for b in items if a != b)


def is_before(a, b):
    (put_a, place_a), (put_b, place_b) = a, b
    if put_a.priorities[:1] != put_b.priorities[:1]:
        return put_a.priorities < put_b.priorities
    if put_a is put_b:
        return place_a < place_b
    if put_a.position is not None and put_b.position is not None:
        return put_a.position + place_a < put_b.position + place_b
    return put_a.until < put_b.called


def breaks(history, a, b):
    value_a, value_b = a[0].values[a[1]], b[0].values[b[1]]
    exempt = any(value_a in one.values for one in history.unknown(Kind.GET))
    if a[0].ended is not Ended.SUCCEEDED or exempt or not is_before(a, b):
        return False
    gets = history.succeeded(Kind.GET)
    for one in gets:
        if value_b not in one.values:
            continue
        at_b = one.values.index(value_b)
        if value_a in one.values[at_b:]:
            return True
        taken = [each for each in gets if value_a in each.values]
        if a[0].until < one.called and not any(each.called <= one.until for each in taken):
            return True
        if b_follows(a, b) and any(
            back.until < one.called
            and not any(each.called <= one.until and each.until > back.called for each in taken)
            for back in history.succeeded(Kind.BACK)
            if value_a in back.values
        ):
            return True
    return False


def b_follows(a, b):
    """Whether more says so than that one put has both, which says nothing of what comes back."""
    return a[0] is not b[0] or a[0].position is not None


def leased(chance):
    """A small history with positions, second deliveries and lost gets."""
    history = drawn(chance, operations=7, batches=(1, 2, 3))
    position, operations = 0, []
    for one in sorted(history, key=lambda one: one.called + chance.choice((0, 0, 0, 2))):
        if one.kind is Kind.PUT and one.ended is Ended.SUCCEEDED and chance.random() < 0.7:
            gap = chance.choice((0, 0, 0, 0, 1, -1))
            position = max(0, position + gap)
            one = Operation(  # noqa: PLW2901
                "p", Kind.PUT, one.values, one.called, one.returned, position=position
            )
            position += len(one.values)
        operations.append(one)
    values = [value for one in history.attempted(Kind.PUT) for value in one.values]
    for _ in range(chance.choice((0, 0, 1, 2))):
        start = chance.randint(0, 14)
        again = tuple(chance.sample(values, min(len(values), chance.randint(1, 2))))
        ended = chance.choice((Ended.SUCCEEDED, Ended.SUCCEEDED, Ended.UNKNOWN))
        operations.append(get(again, start, start + chance.randint(0, 3), ended))
    for _ in range(chance.choice((0, 0, 1)) if values else 0):
        start = chance.randint(0, 14)
        word = (chance.choice(values),), start, start + chance.randint(0, 2)
        operations.append(Operation("g", Kind.BACK, *word))
    chance.shuffle(operations)
    return History.of(operations)


def ranked(chance, history):
    """The same, and each put has a priority; positions go with them."""
    operations = []
    for one in history:
        if one.kind is Kind.PUT:
            rank = chance.choice((0, 0, 1, 2))
            at = None if one.position is None else one.position + 100 * rank
            one = replace(one, priorities=(rank,) * len(one.values), position=at)  # noqa: PLW2901
        operations.append(one)
    return History.of(operations)


def compare(count, seed):
    chance = Random(seed)
    seen = Counter()
    for number in range(count):
        history = leased(chance)
        if number % 3 == 0:
            history = ranked(chance, history)
        verdict = check_fifo_leased(history)
        told = f"history {number} of seed {seed}: {verdict}\n" + "\n".join(map(repr, history))
        match verdict:
            case Valid():
                assert is_right(history), told
            case Undecided():
                assert not is_right(history), told
                assert any(not one.values for one in history.unknown(Kind.GET)), told
            case Invalid():
                assert not is_right(history), told
                assert set(verdict.example) <= set(history), told
                assert isinstance(check_fifo_leased(History.of(verdict.example)), Invalid), told
                seen[next(words for words in RULES if words in verdict.sentence)] += 1
        seen[type(verdict).__name__] += 1
    return seen


def test_it_agrees_with_brute_force():
    seen = compare(6_000, seed=1)
    assert seen["Valid"] > 500
    assert seen["Undecided"] > 50
    assert all(seen[words] > 25 for words in RULES), seen


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_it_agrees_with_brute_force_for_long():
    compare(300_000, seed=2)


# --- single rules ---------------------------------------------------------------------------------


def test_nothing_is_right():
    assert verdict_of() == Valid("fifo_leased")


def test_items_that_come_again_may_be_passed():
    operations = put("ab", 1, 2, 0), get("a", 3, 4), get("b", 5, 6), get("a", 7, 8)
    assert verdict_of(*operations) == Valid("fifo_leased")


def test_a_waiting_item_may_not_be_passed():
    operations = put("a", 1, 2), put("b", 3, 4), get("b", 5, 6), get("a", 7, 8)
    verdict = verdict_of(*operations)
    assert isinstance(verdict, Invalid)
    assert verdict.example == operations


def test_an_item_that_was_never_got_was_passed_too():
    verdict = verdict_of(put("ab", 1, 2, 0), get("b", 3, 4))
    assert isinstance(verdict, Invalid)
    assert "'a' waited" in verdict.sentence


def test_an_item_whose_put_was_not_answered_yet_may_be_passed():
    assert verdict_of(put("ab", 1, 5, 0), get("b", 3, 4), get("a", 6, 7)) == Valid("fifo_leased")


def test_a_delayed_item_is_noted_as_unknown_and_may_be_passed():
    operations = put("a", 1, None, ended=Ended.UNKNOWN), put("b", 3, 4), get("b", 5, 6)
    assert verdict_of(*operations, get("a", 7, 8)) == Valid("fifo_leased")


def test_a_lost_get_excuses_what_it_names_and_leaves_the_rest_open_when_it_names_nothing():
    operations = put("abc", 1, 2, 0), get("c", 3, 4), get("b", 5, 6), get("a", 7, 8)
    lost = get("ab", 2, None, Ended.UNKNOWN)
    assert verdict_of(*operations, lost) == Valid("fifo_leased")
    assert isinstance(verdict_of(*operations, get("", 2, None, Ended.UNKNOWN)), Undecided)


def test_a_position_is_told_once():
    first, second = put("ab", 1, 2, 0), put("c", 1, 2, 1)
    assert isinstance(verdict_of(first, second), Invalid)
    assert verdict_of(first, put("c", 1, 2, 2)) == Valid("fifo_leased")


def test_positions_go_with_time():
    early, late = put("a", 1, 2, 5), put("b", 3, 4, 0)
    verdict = verdict_of(early, late)
    assert isinstance(verdict, Invalid)
    assert verdict.example == (early, late)


def test_what_is_more_urgent_goes_first_and_each_priority_is_a_fifo():
    late, urgent = put("a", 1, 2, 100, rank=1), put("b", 3, 4, 0, rank=0)
    assert verdict_of(late, urgent, get("ba", 5, 6)) == Valid("fifo_leased")
    assert verdict_of(late, get("a", 3, 6), urgent, get("b", 5, 6)) == Valid("fifo_leased")
    for gets in ([get("ab", 5, 6)], [get("a", 5, 6), get("b", 7, 8)], [get("a", 5, 6)]):
        assert isinstance(verdict_of(late, urgent, *gets), Invalid)
    unsaid = [replace(one, position=None) for one in (late, urgent)]
    assert isinstance(verdict_of(*unsaid, get("a", 5, 6)), Invalid)


def test_what_was_given_back_waits_again():
    some = put("ab", 1, 2, 0), get("a", 3, 4), Operation("g", Kind.BACK, ("a",), 5, 6)
    assert verdict_of(*some, get("a", 7, 8), get("b", 9, 10)) == Valid("fifo_leased")
    assert verdict_of(*some, get("b", 5, 8), get("a", 9, 10)) == Valid("fifo_leased")
    assert verdict_of(*some, get("b", 7, 9), get("a", 9, 10)) == Valid("fifo_leased")
    for gets in ([get("b", 7, 8)], [get("b", 7, 8), get("a", 9, 10)]):
        assert isinstance(verdict_of(*some, *gets), Invalid)


def test_values_put_twice_leave_it_undecided():
    assert isinstance(verdict_of(put("a", 1, 2), put("a", 3, 4)), Undecided)


def test_it_takes_thirty_thousand_items():
    count = 6_000
    puts = [put(range(5 * n, 5 * n + 5), 10 * n, 10 * n + 15, 5 * n) for n in range(count)]
    gets = [get(range(5 * n, 5 * n + 5), 10 * n + 40, 10 * n + 55) for n in range(count)]
    assert verdict_of(*puts, *gets) == Valid("fifo_leased")
