"""How much of a range one scan brings, against the sentence that says it."""

from hypothesis import given
from hypothesis import strategies as st

from snowmelt.core.record import SCAN_RECORDS_MAX, Damaged, Record, scanned

FOUND = st.lists(
    st.one_of(
        st.builds(Record, st.just(b"k"), st.binary(max_size=5)), st.builds(Damaged, st.just(b"k"))
    )
)


def weight(found):
    return sum(len(one.value) for one in found if isinstance(one, Record))


@given(FOUND, st.integers(0, 40))
def test_a_scan_ends_with_the_record_that_reaches_the_bound_and_is_never_empty(found, bytes_max):
    part = list(scanned(found, bytes_max))
    assert part == found[: len(part)]
    assert bool(part) == bool(found)
    assert len(part) < 2 or weight(part[:-1]) < bytes_max
    assert part == found or weight(part) >= bytes_max


def test_a_scan_brings_no_more_records_than_the_limit_though_they_weigh_nothing():
    found = [Damaged(b"k")] * (SCAN_RECORDS_MAX + 1)
    assert len(list(scanned(found, 1))) == SCAN_RECORDS_MAX
