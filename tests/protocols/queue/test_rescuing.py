"""Which home a queue has when the coordinator's disk is lost, and what is left of it."""

import msgspec
import pytest

from snowmelt.core.errors import StoreVersion
from snowmelt.core.record import Record
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.controller.rescuing import (
    FIRST_TERM,
    TERMS_LEFT_OUT,
    CopyCondition,
    first_term,
    housed,
    kept_at,
    traces,
    written,
)
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.words import Head
from snowmelt.protocols.queue.store.copy import FORM, CopyHeader

N1, N2, N3, NEW = "n1/1", "n2/2", "n3/3", "n1/f"


def _disk(keeper, term, step, *, replicas=2, keepers=(N1, N2), fence=0, damaged=()):
    """What one folder has of the queue `q`."""
    home = Assignment("q", term, keepers[0], keepers[1:], QueueSettings(replicas=replicas))
    kept = msgspec.msgpack.encode(CopyHeader(Head(term, step), max(fence, term)))
    records = [
        Record(b"mq", kept),
        Record(b"kq", kept),
        Record(b"jq\0h", msgspec.msgpack.encode(home)),
    ]
    found = [one for one in records if one.key not in damaged]
    return list(traces(keeper, f"{keeper}/7", found, damaged).values())


def _one(found, lost=1, keepers=(N2, N3, NEW)):
    (house,) = housed(found, keepers, lost)
    return house


def test_a_queue_goes_on_from_the_newest_copy_under_a_term_far_above():
    found = [*_disk(N3, 4, 90, keepers=(N3, N1)), *_disk(N2, 5, 10, keepers=(N1, N2))]
    house = _one(found)
    home = house.home
    assert (house.left, home.master, home.run) == (CopyCondition.WHOLE, N2, f"{N2}/7")
    assert (home.before, home.before_term, home.active) == ((N1, N2), 5, False)
    assert home.term == 5 + TERMS_LEFT_OUT
    assert home.mirrors == (N3,)


def _mark(keeper, term):
    """What is left in one folder of a queue that was deleted by that term."""
    kept = msgspec.msgpack.encode(CopyHeader(Head(0, 0), term, FORM, True))
    records = [Record(b"mq", kept), Record(b"kq", kept)]
    return list(traces(keeper, f"{keeper}/7", records, ()).values())


def test_a_queue_that_one_folder_knows_as_deleted_stays_so_though_another_has_a_copy():
    house = _one([*_disk(N3, 5, 12), *_mark(N2, 6)])
    assert house.left is CopyCondition.DELETED
    assert house.home.end is not None
    assert house.home.term == 6 + TERMS_LEFT_OUT
    (later,) = _disk(N3, 9, 12)
    later = msgspec.structs.replace(later, home=msgspec.structs.replace(later.home, since=7))
    assert _one([later, *_mark(N2, 6)]).left is CopyCondition.WHOLE


def test_a_folder_that_was_left_out_has_no_copy_and_knows_the_home_that_left_it_out():
    home = Assignment("q", 5, N2, (), QueueSettings(), active=True)
    kept = msgspec.msgpack.encode(CopyHeader(Head(0, 0), 5, FORM, left=True))
    told = msgspec.msgpack.encode(home)
    records = [Record(b"mq", kept), Record(b"kq", kept), Record(b"jq\0h", told)]
    left = list(traces(N1, f"{N1}/7", records, ()).values())
    assert _one(left).left is CopyCondition.LOST
    assert kept_at(left) == {"n2": "q"}
    old = _disk(N3, 4, 90, keepers=(N3,), replicas=1)
    house = _one([*left, *old])
    assert (house.left, house.home.master, house.home.before) == (CopyCondition.PART, N3, (N2,))
    new = _disk(N2, 5, 3, keepers=(N2,), replicas=1)
    house = _one([*left, *new], lost=0)
    assert (house.left, house.home.master, house.home.before) == (CopyCondition.WHOLE, N2, (N2,))


def test_of_copies_of_one_term_the_one_that_is_further_is_the_masters():
    keepers = (N1, N2, N3)
    found = [
        *_disk(N2, 5, 10, replicas=3, keepers=keepers),
        *_disk(N3, 5, 12, replicas=3, keepers=keepers),
    ]
    home = _one(found).home
    assert (home.master, home.mirrors) == (N3, (N2, NEW))


def test_the_next_term_is_above_every_fence_too():
    assert _one(_disk(N2, 5, 10, fence=4000)).home.term == 4000 + TERMS_LEFT_OUT


@pytest.mark.parametrize(
    ("replicas", "lost", "left"),
    [
        (1, 1, CopyCondition.PART),
        (2, 1, CopyCondition.WHOLE),
        (3, 1, CopyCondition.WHOLE),
        (3, 2, CopyCondition.PART),
    ],
)
def test_a_queue_is_whole_where_fewer_disks_are_lost_than_copies_are_needed(replicas, lost, left):
    assert _one(_disk(N2, 1, 1, replicas=replicas), lost).left is left


def test_a_folder_that_lost_the_record_counts_as_lost_for_that_queue():
    found = [*_disk(N2, 5, 10), *_disk(N3, 5, 10, damaged=(b"jq\0h",))]
    assert _one(found).left is CopyCondition.PART


def test_what_no_folder_keeps_a_journal_of_is_lost_and_said_to_be():
    fenced = traces(
        N2, f"{N2}/7", [Record(b"mq", msgspec.msgpack.encode(CopyHeader(Head(0, 0), 9)))], []
    )
    houses = housed(list(fenced.values()), (N2, NEW), 1, bodies=["q", "p"])
    assert [(one.queue, one.left, one.home) for one in houses] == [
        ("q", CopyCondition.LOST, None),
        ("p", CopyCondition.LOST, None),
    ]
    assert first_term(houses) > 9


def test_new_queues_begin_above_all_terms_and_this_is_written_down_twice():
    houses = [_one(_disk(N2, 5, 10))]
    first = first_term(houses)
    assert first == 5 + TERMS_LEFT_OUT
    keys = {change.key: change.value for change in written(houses, first)}
    assert [msgspec.msgpack.decode(keys[key]) for key in FIRST_TERM] == [first, first]
    assert keys[b"hq"] == keys[b"iq"]


def test_who_keeps_copies_by_the_latest_homes_is_told():
    found = [*_disk(N2, 4, 1, keepers=(N2, "n9/9")), *_disk(N3, 5, 1, keepers=(N3, "n8/8"))]
    assert kept_at(found) == {"n3": "q", "n8": "q"}


def test_a_journal_of_another_form_is_refused():
    for old in (CopyHeader(Head(1, 1), 1, FORM - 1), [1, 1, 1, 0, 0, 0, 0, 2]):
        with pytest.raises(StoreVersion, match="'q' on this disk was written by another version"):
            traces(N2, f"{N2}/7", [Record(b"mq", msgspec.msgpack.encode(old))], [])
