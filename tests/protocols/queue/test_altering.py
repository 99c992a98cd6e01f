"""A queue's settings are altered while it runs: what waits, is leased or dead, and who dies."""

import re
from typing import Any

import pytest
from alone import Alone
from cluster_bench import ClusterBench
from three_bench import Three, got, settled, three

from snowmelt.core.batch import Batch
from snowmelt.core.instant import milliseconds, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import (
    Alter,
    Changed,
    Describe,
    Get,
    Leased,
    Put,
    PutDone,
    Redrive,
    Settle,
    Settled,
)
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.messages import home_words
from snowmelt.protocols.queue.messages.words import Append


def alter(bench: Three, **some: int) -> Any:
    """Asked at the master, until it is told."""
    return bench.ask(bench.master, Alter(bench.queue, tuple(some.items())), within=8)


def settings(bench: Three) -> QueueSettings:
    return bench.leader().home.settings


# --- what becomes of what is there ----------------------------------------------------------------


def test_all_goes_on_with_what_is_named_altered_and_the_rest_as_it_was() -> None:
    bench, master, _ = three(lease=seconds(40))
    assert isinstance(bench.told(master, 1), PutDone)
    assert alter(bench, items_max=9, deliveries_max=5) == Changed(0)
    now = settings(bench)
    assert (now.items_max, now.deliveries_max, now.lease) == (9, 5, seconds(40))
    assert isinstance(bench.told(master, 2), PutDone)
    assert got(bench) == [b"item 1", b"item 2"]
    assert settled(bench).settings == now


def test_what_is_so_already_is_told_and_makes_no_term() -> None:
    bench, *_ = three(items_max=9)
    term = bench.home(bench.queue).term
    assert alter(bench, items_max=9) == Changed(0)
    assert bench.home(bench.queue).term == term


def test_two_who_differ_both_have_their_way_one_after_the_other() -> None:
    """Who has his way is told so, though the others ask for a new term meanwhile."""
    bench = ClusterBench(3)
    queue = next(one for one in map(str, range(40)) if bench.open(one, replicas=3) == "n1")
    bench.run(2)  # who leads it decides on homes, too: so a term is made sooner than confirmed
    asked = [bench.call("n1", Alter(queue, (("items_max", most),))) for most in (5, 7, 9)]
    bench.run(10)
    assert [bench.answers.get(one) for one in asked] == [Changed(0)] * 3
    term = bench.home(queue).term
    bench.run(5)
    assert bench.home(queue).term == term


def test_a_put_that_waits_comes_in_when_there_is_room_for_it() -> None:
    bench, master, _ = three(items_max=1)
    bench.told(master, 1)
    waits = bench.call(master, bench.request(2, patience=seconds(60)))
    bench.run(1)
    assert waits not in bench.answers
    assert alter(bench, items_max=2) == Changed(0)
    bench.run(1)
    assert isinstance(bench.answers[waits], PutDone)


def test_what_is_more_than_a_smaller_bound_stays_and_new_puts_wait() -> None:
    bench, master, _ = three()
    for number in range(3):
        bench.told(master, number)
    alter(bench, items_max=2)
    full = bench.told(master, 4)
    assert isinstance(full, Declined)
    assert full.error == "Full"
    assert got(bench) == [b"item 0", b"item 1", b"item 2"]


def lease(bench: Three) -> Any:
    return bench.get(bench.master, queue=bench.queue)


@pytest.mark.parametrize("killed", [False, True])
def test_a_lease_keeps_its_length_and_the_next_has_the_new_one(killed: bool) -> None:
    bench, master, _ = three(lease=seconds(60))
    bench.told(master, 1)
    held = lease(bench)
    alter(bench, lease=seconds(1))
    if killed:
        bench.kill(
            master,
        )
        bench.view()
        bench.run(3)
        bench.master = bench.home(bench.queue).master.partition("/")[0]
    assert isinstance(bench.told(bench.master, 2), PutDone)
    short = lease(bench)
    bench.run(5)
    again = lease(bench)  # of both only what was leased for a second came back
    assert [part.start for part in short.parts] == [part.start for part in again.parts] == [1]
    longer = bench.ask(bench.master, Settle(bench.queue, held.token, extend=True))
    assert longer == Settled(1, seconds(60))
    done = bench.ask(bench.master, Settle(bench.queue, held.token, (Interval(0, 1),)))
    assert done == Settled(0)


def test_who_extends_a_new_lease_is_told_how_long_it_lasts() -> None:
    bench, master, _ = three(lease=seconds(60))
    alter(bench, lease=seconds(2))
    bench.told(master, 1)
    held = lease(bench)
    assert held.lease == seconds(2)
    assert bench.ask(master, Settle(bench.queue, held.token, extend=True)) == Settled(1, seconds(2))


@pytest.mark.parametrize("most", [1, 9])
def test_what_is_dead_stays_dead_and_what_is_not_is_not_yet(most: int) -> None:
    bench, master, _ = three(deliveries_max=3)
    bench.told(master, 1)
    bench.told(master, 2)

    def fail() -> None:
        settle = Settle(bench.queue, lease(bench).token, back=(Interval(0, 2),), reason="bad")
        assert bench.ask(master, settle) == Settled(0)

    alter(bench, deliveries_max=2)
    fail()
    alter(bench, deliveries_max=1)
    assert bench.ask(master, Describe(bench.queue)).ready == 2, "they may fail once more"
    fail()
    assert bench.ask(master, Describe(bench.queue)).dead == 2
    alter(bench, deliveries_max=most + 1)
    assert bench.ask(master, Describe(bench.queue)).dead == 2
    settled(bench).check()
    assert bench.ask(master, Redrive(bench.queue)) == Changed(2)
    assert got(bench) == [b"item 1", b"item 2"]


def test_one_delivery_at_most_is_given_singly() -> None:
    bench, master, _ = three()
    bench.told(master, 1)
    bench.told(master, 2)
    alter(bench, deliveries_max=1)
    held = bench.ask(master, Get(bench.queue, 9, 1 << 20, seconds(0), None, ahead=True))
    assert sum(len(Batch(one.offsets, one.blob)) for one in held.parts) == 1


def test_flushes_that_lingered_are_lost_to_nobody_when_none_may_any_more() -> None:
    bench, master, _ = three(linger=seconds(5))
    for number in range(5):
        assert isinstance(bench.told(master, number), PutDone)
    assert alter(bench, linger=0) == Changed(0)
    bench.kill(master)
    bench.view()
    bench.run(5)
    assert got(bench) == [b"item %d" % number for number in range(5)]


def test_a_follower_tells_nothing_before_it_knows_that_flushes_may_linger() -> None:
    """Else it would take itself for sure when it begins anew, and lack what it told."""
    bench, master, mirrors = three()
    first = next(one for one in mirrors if one != "n1")
    slot, term = bench.slots[NodeId(first)], bench.home(bench.queue).term + 1

    def holds(_: str, target: str, one: Any) -> bool:
        slot.held = slot.held or (target == first and isinstance(one, Append) and one.term == term)
        return False

    bench.drops.append(holds)
    assert alter(bench, linger=seconds(5)) == Changed(0)
    bench.run(1)
    assert isinstance(bench.told(master, 1), PutDone)
    told = [
        one.head
        for source, _, one in bench.sent
        if source == first and type(one).__name__ == "Appended"
    ]
    assert bench.leader().log.head > 1
    assert {one.term for one in told} <= {term - 1}


# --- what can't be had ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("some", "text"),
    [
        ({"lease": 1}, "lease is 1; allowed"),
        ({"replicas": 4}, "replicas is 4; allowed: at most 3, the nodes present"),
        ({"replicas": 2, "durable_copies": 3}, "durable_copies is 3; allowed: 0 to 2"),
        ({"priorities": 4}, "option is 'priorities'.*make another of a new name"),
    ],
)
def test_what_can_not_be_had_is_refused(some: dict[str, int], text: str) -> None:
    bench, *_ = three()
    term = bench.home(bench.queue).term
    told = alter(bench, **some)
    assert isinstance(told, Declined)
    assert re.match(text, told.text), told.text
    assert bench.home(bench.queue).term == term


def test_who_makes_no_such_queue_alters_none() -> None:
    bench, master, _ = three()
    told = bench.ask(master, Alter("other", (("items_max", 1),)))
    assert isinstance(told, Declined)
    assert told.error == "NoSuchQueue"


# --- who dies, is away, or comes late -------------------------------------------------------------


def test_who_leads_is_killed_when_it_is_decided_and_the_next_has_the_new_settings() -> None:
    bench, master, _ = three()
    bench.told(master, 1)
    bench.drops.append(
        lambda _s, target, one: target == master and isinstance(one, home_words.Assignment)
    )
    bench.call(master, Alter(bench.queue, (("items_max", 7),)))
    bench.run(1)
    assert bench.home(bench.queue).settings.items_max == 7
    bench.kill(master)
    bench.drops.clear()
    bench.view()
    bench.run(5)
    assert settings(bench).items_max == 7
    assert got(bench) == [b"item 1"]


def test_who_leads_is_killed_before_it_is_decided_and_nothing_is_altered() -> None:
    bench, master, _ = three()
    bench.told(master, 1)
    bench.drops.append(lambda _s, _t, one: isinstance(one, home_words.ChangeSettings))
    bench.call(master, Alter(bench.queue, (("items_max", 7),)))
    bench.run(1)
    bench.kill(master)
    bench.drops.clear()
    bench.view()
    bench.run(5)
    assert settings(bench).items_max == 0
    assert got(bench) == [b"item 1"]


def test_a_word_of_an_earlier_term_alters_nothing() -> None:
    bench, master, _ = three()
    alter(bench, items_max=7)
    word = bench.messages("ChangeSettings")[-1]
    alter(bench, items_max=8)
    bench.receive(master, "n1", word)
    bench.run(2)
    assert settings(bench).items_max == 8


def test_two_at_once_are_both_so_at_the_end() -> None:
    bench, master, _ = three()
    one = bench.call(master, Alter(bench.queue, (("items_max", 7),)))
    two = bench.call(master, Alter(bench.queue, (("lease", seconds(9)),)))
    bench.run(5)
    assert bench.answers[one] == bench.answers[two] == Changed(0)
    assert (settings(bench).items_max, settings(bench).lease) == (7, seconds(9))


def test_with_one_follower_away_it_is_altered_all_the_same() -> None:
    bench, master, (_, second) = three()
    bench.told(master, 1)
    if second == "n1":  # who decides stays
        second = next(one for one in bench.mirrors if one != "n1")
    bench.kill(second)
    bench.view()
    assert alter(bench, items_max=7) == Changed(0)
    assert isinstance(bench.told(bench.leader().home.master.partition("/")[0], 2), PutDone)


# --- in a folder ----------------------------------------------------------------------------------


def test_in_a_folder_a_lease_outlives_it() -> None:
    alone = Alone.of()
    batch = Batch.of([b"one"])
    alone.said(Put("q", "p", 1, bytes(batch.offsets), bytes(batch.blob)))
    held = alone.said(Get("q", 1, 1 << 20, seconds(0), None))
    assert alone.said(Alter("q", (("lease", milliseconds(300)),))) == Changed(0)
    empty = alone.said(Get("q", 1, 1 << 20, seconds(0), None))
    assert (empty.token, empty.lease) == (0, milliseconds(300))
    assert alone.said(Settle("q", held.token, (Interval(0, 1),))) == Settled(0)
    assert isinstance(held, Leased)
