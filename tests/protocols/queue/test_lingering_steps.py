"""Where flushes may linger: what is told before, what a crash costs, and what it never costs."""

import pytest
from alone import Alone
from queue_bench import Bench, values

from snowmelt.core.instant import milliseconds
from snowmelt.core.node import Loaded
from snowmelt.protocols.queue.api.calls import Get
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.words import Head
from snowmelt.protocols.queue.replication.log import BOUND_AHEAD
from snowmelt.protocols.queue.replication.takeover import TakeOver
from snowmelt.protocols.queue.store.copy import Copy

LINGER = milliseconds(50)


@pytest.fixture
def alone():
    alone = Alone.of(linger=LINGER)
    alone.put(0)
    alone.wait(LINGER)
    alone.flush()
    return alone


def test_a_put_is_told_before_it_is_flushed_and_says_so(alone):
    told = alone.put(1)
    assert (told.start, told.flushed) == (1, False)
    assert alone.put(1).repeated


def test_it_is_flushed_within_its_time(alone):
    alone.put(1)
    alone.wait(LINGER)
    alone.flush()
    alone.killed()
    assert [bytes(part.blob) for part in alone.get().parts] == [b"item 0item 1"]


def test_what_a_crash_costs_and_that_no_position_is_given_again(alone):
    assert alone.put(1).start == 1
    alone.killed()
    again = alone.put(1)
    assert not again.repeated
    assert again.start >= BOUND_AHEAD
    assert [bytes(part.blob) for part in alone.get().parts] == [b"item 0", b"item 1"]


def test_a_body_that_lingers_is_read_before_it_is_on_the_disk(alone):
    for number in (1, 2):
        alone.put(number)
    assert [bytes(part.blob) for part in alone.get().parts] == [b"item 0item 1item 2"]


def test_a_body_that_was_flushed_after_it_was_looked_for_is_not_lost():
    bench = Bench(linger=LINGER)
    bench.put(b"body")
    bench.forget()
    get = bench.begin(Get("q", 1, 100, LINGER))
    looked_for = [one for one in bench._writes if isinstance(one[1], Loaded)]
    bench._writes = [one for one in bench._writes if one not in looked_for]
    bench.later(LINGER)  # the flush is heard of first
    bench._writes += looked_for
    bench.run()
    assert values(bench.told[get].parts) == ["body"]
    assert bench.state.lost == 0


def test_without_lingering_nothing_is_told_before_its_flush():
    alone = Alone.of()
    assert alone.put(0) is None
    alone.flush()
    assert alone.answers[alone.calls].flushed


# --- copies that were read from a disk ------------------------------------------------------------


def test_a_copy_from_a_disk_is_sure_when_it_has_what_its_leader_had():
    copy = Copy("q")
    copy.head, copy.reach = Head(5, 90), Head(6, 0)
    assert not copy.sure
    copy.reach = min(copy.reach, Head(5, 100))  # its leader had so many when this run had begun
    copy.head = Head(5, 100)
    assert copy.sure
    copy.head, copy.reach = Head(6, 91), Head(6, 0)  # or a later term has begun
    assert copy.sure


def test_copies_that_may_lack_what_they_told_are_not_enough():
    settings = QueueSettings(replicas=3, linger=LINGER)
    before = ("n1/1", "n2/1", "n3/1")
    taking = TakeOver(Assignment("q", 6, "n1/1", before[1:], settings, before=before))
    taking.fenced = True
    taking.told("n1/1", Head(5, 90), sure=False)
    taking.told("n2/1", Head(5, 80), sure=True)
    assert taking.newest("n1/1", ()) is None
    taking.told("n3/1", Head(5, 100), sure=True)
    assert taking.newest("n1/1", ()) == ("n3/1", Head(5, 100))
