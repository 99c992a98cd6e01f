"""What the root's disk says of batons can't be read: one baton waits, no node ends."""

from itertools import count

import pytest

from snowmelt.core.instant import SECOND, Instant
from snowmelt.core.node import Note, Started
from snowmelt.core.record import Record
from snowmelt.protocols.baton.fences import BEGINNING, COUNT_BITS, KEY, Fences
from snowmelt.protocols.baton.stable import COPY, OnDisk
from snowmelt.protocols.baton.values import Values

DEEP = b"\x81\xa1x" + b"\x91" * 5_000
GARBAGE = [b"", b"\xc1", b"\x05", b"\x92\x01", b"\xdf\xff\xff\xff\xff", DEEP]


@pytest.mark.parametrize("value", [*GARBAGE[:2], GARBAGE[3], DEEP, b"\xff", b"\xcf" + b"\xff" * 8])
def test_fences_go_on_by_the_time_of_day_where_how_far_they_are_can_not_be_read(value):
    fences = Fences(count(), OnDisk())
    records = (Record(KEY, value), Record(KEY + COPY, value))
    (note,) = fences.started(Started(records, (), BEGINNING + 70 * SECOND), Instant(0))
    assert "they go on by the time of day" in note.text
    (persist,) = fences.entered(Instant(5 * SECOND))
    fences.settled(persist.ticket)
    assert fences.first == 75 << COUNT_BITS


@pytest.mark.parametrize("value", GARBAGE)
def test_a_value_that_is_none_is_as_one_that_is_damaged(value):
    values = Values(count(), OnDisk())
    records = (Record(b"index", value), Record(b"index" + COPY, value))
    found, effects = values.started(Started(records))
    assert not found
    assert [*values.spoiled] == ["index"]
    assert [type(one) for one in effects] == [Note]
