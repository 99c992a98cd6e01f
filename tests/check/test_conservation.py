import pytest
from hypothesis import given
from hypothesis import strategies as st

from snowmelt_world.check.conservation import check_conservation
from snowmelt_world.check.history import Ended, History, Kind, Operation
from snowmelt_world.check.verdict import Invalid, Undecided, Valid


def call(kind, values, called, returned, ended=Ended.SUCCEEDED):
    return Operation("p", Kind(kind), tuple(values), called, returned, ended)


def verdict_of(*operations):
    return check_conservation(History.of(operations))


PUT = call("put", "ab", 1, 2)
GET = call("get", "ab", 3, 4)
EMPTY = call("get", "", 90, 91)
DRAIN = call("drain", "", 92, 93)


def test_what_was_put_and_got_is_conserved():
    verdict = verdict_of(PUT, GET)
    assert isinstance(verdict, Valid)
    assert (verdict.report.put, verdict.report.got, verdict.report.lost) == (2, 2, 0)
    assert not verdict.report.drained
    assert verdict_of(PUT, GET, EMPTY).report.drained


@pytest.mark.parametrize("evidence", [EMPTY, DRAIN])
def test_a_lost_value_is_found_once_the_queue_was_emptied(evidence):
    verdict = verdict_of(PUT, call("get", "a", 3, 4), evidence)
    assert isinstance(verdict, Invalid)
    assert verdict.example == (PUT, evidence)
    assert verdict.report.lost == 1


@pytest.mark.parametrize(
    "evidence",
    [
        (),
        (call("get", "", 2, 3),),  # before the last operation had returned
        (call("get", "", 90, 91, Ended.UNKNOWN),),
        (call("get", "", 90, 91, Ended.FAILED),),
        (call("drain", "", 3, 91),),
    ],
)
def test_without_evidence_of_a_drain_loss_is_undecided(evidence):
    verdict = verdict_of(PUT, call("get", "a", 3, 4), *evidence)
    assert isinstance(verdict, Undecided)
    assert verdict.report.lost is None
    assert verdict.report.undelivered == 1


def test_two_consumers_that_end_empty_together_are_evidence():
    verdict = verdict_of(PUT, call("get", "a", 3, 4), EMPTY, call("get", "", 89, 95))
    assert isinstance(verdict, Invalid)


def test_a_get_of_unknown_outcome_may_have_taken_the_value():
    lost_get = call("get", "", 5, None, Ended.UNKNOWN)
    for evidence in (EMPTY, DRAIN):
        assert isinstance(verdict_of(PUT, call("get", "a", 3, 4), lost_get, evidence), Undecided)


def test_with_leases_a_get_of_unknown_outcome_only_delays():
    lost_get = call("get", "", 5, None, Ended.UNKNOWN)
    leased = PUT, call("get", "a", 3, 4), call("ack", "a", 5, 6), lost_get
    assert isinstance(verdict_of(*leased, EMPTY), Undecided)
    assert isinstance(verdict_of(*leased, DRAIN), Invalid)


def test_who_acknowledges_a_value_has_it():
    seen = call("get", "a", 3, 4), call("ack", "b", 5, 6)
    assert isinstance(verdict_of(PUT, *seen, DRAIN), Valid)


@pytest.mark.parametrize(
    "get_",
    [call("get", "z", 3, 4), call("get", "c", 3, 4), call("get", "d", 3, 4)],
)
def test_a_value_from_nowhere_is_found(get_):
    failed = call("put", "c", 1, 2, Ended.FAILED)
    late = call("put", "d", 5, 6)
    verdict = verdict_of(PUT, failed, late, get_)
    assert isinstance(verdict, Invalid)
    assert verdict.example == (get_,)
    assert verdict.report.unexpected == 1


def test_a_second_delivery_is_counted_and_allowed():
    verdict = verdict_of(PUT, GET, GET)
    assert isinstance(verdict, Valid)
    assert verdict.report.duplicated == 2


def test_a_put_of_unknown_outcome_may_be_recovered_or_not():
    lost_put = call("put", "cd", 1, None, Ended.UNKNOWN)
    verdict = verdict_of(lost_put, call("get", "c", 3, 4), EMPTY)
    assert isinstance(verdict, Valid)
    assert verdict.report.recovered == 1


def test_a_delivery_after_the_acknowledgement_is_found():
    ack, again = call("ack", "a", 5, 6), call("get", "a", 7, 8)
    verdict = verdict_of(PUT, GET, ack, again)
    assert isinstance(verdict, Invalid)
    assert verdict.example == (PUT, ack, again)
    assert verdict.report.revived == 1


@pytest.mark.parametrize(
    "ack",
    [
        call("ack", "a", 5, 7),  # still under way when the get was called
        call("ack", "a", 5, 6, Ended.FAILED),
        call("ack", "a", 5, 6, Ended.UNKNOWN),
    ],
)
def test_a_delivery_beside_an_acknowledgement_is_allowed(ack):
    assert isinstance(verdict_of(PUT, GET, ack, call("get", "a", 7, 8)), Valid)


def test_the_first_acknowledgement_counts():
    acks = [call("ack", "a", 5, until) for until in (9, 6, 9)]
    verdict = verdict_of(PUT, GET, *acks, call("get", "a", 7, 8))
    assert isinstance(verdict, Invalid)
    assert acks[1] in verdict.example


def test_calls_that_touch_are_concurrent():
    assert isinstance(verdict_of(call("put", "a", 5, 6), call("get", "a", 4, 5)), Valid)
    assert isinstance(verdict_of(PUT, call("get", "", 2, 3)), Undecided)


def test_an_acknowledgement_of_one_of_two_equal_values_is_undecided():
    ack, again = call("ack", "a", 5, 6), call("get", "a", 7, 8)
    assert isinstance(verdict_of(PUT, PUT, GET, ack, again), Undecided)


operations = st.builds(
    call,
    st.sampled_from(["put", "put", "get", "ack"]),
    st.lists(st.sampled_from("abc"), max_size=2),
    st.integers(0, 9),
    st.integers(9, 12),
    st.sampled_from(Ended),
)


@given(st.lists(operations, max_size=8), st.permutations(range(8)))
def test_the_order_of_the_lines_means_nothing(drawn, order):
    shuffled = [drawn[index] for index in order if index < len(drawn)]
    one, other = verdict_of(*drawn), verdict_of(*shuffled)
    assert type(one) is type(other)
    assert one.report == other.report


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abcd"), max_size=6))
def test_the_counts_add_up(put, got):
    report = verdict_of(call("put", put, 1, 2), call("get", got, 3, 4), EMPTY).report
    assert report.put == len(put)
    assert report.got == len(got)
    assert report.put - report.undelivered == report.got - report.duplicated - report.unexpected
