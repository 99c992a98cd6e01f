"""Thousands who wait: for one baton or for thousands, they end no node and hold nobody up."""

from random import Random
from typing import Any

from baton_bench import NAME, Bench

from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import Announced, Expired, Received, Requested
from snowmelt.protocols.arrow import Branch, Observer
from snowmelt.protocols.baton import BatonNode, BatonSettings
from snowmelt.protocols.baton.calls import Acquire, Granted, Released
from snowmelt.protocols.baton.context import STEPS_AT_ONCE
from snowmelt.protocols.baton.messages import Along, CensusQuery, Predecessor
from snowmelt.protocols.baton.node import PARTS, PLACES_MAX, BatonAlarm
from snowmelt.protocols.baton.token_census import AT_ONCE
from snowmelt.protocols.calling import Call
from snowmelt.protocols.membership import Current, Member, View
from snowmelt_world.families import family
from snowmelt_world.faults import KINDS
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import drawn
from work import lines_of


def crowd(bench: Bench, count: int, first: int = 10, clients: int = 0) -> None:
    """One client wants it under many tickets, one after the other; or so many clients do."""
    for ticket in range(first, first + count):
        bench.now = Instant(bench.now + 20_000)
        bench.want(f"c-crowd-{ticket % clients}" if clients else "c-crowd", "n1", ticket)


def test_thousands_that_gave_up_in_a_row_are_passed_at_once_some_in_each_event():
    bench = Bench(1)
    held = bench.held("c-first", "n1", 1)
    crowd(bench, 2_000)
    bench.gone("c-crowd", "n1")
    last = bench.want("c-last", "n1", 9_999_999)
    assert bench.answer(bench.release("c-first", 1, held)) == Released()
    begun, events = bench.now, 0
    while bench.answer(last) is None:
        assert fire(bench) < 100 * STEPS_AT_ONCE
        events += 1
    assert isinstance(bench.answer(last), Granted)
    assert (bench.now, events) == (begun, 2_000 // STEPS_AT_ONCE)


def test_one_client_leaves_places_to_others():
    bench = Bench(1)
    bench.held("c-first", "n1", 1)
    crowd(bench, PLACES_MAX)
    assert len(bench.baton("n1").relay.turns) < PLACES_MAX * 9 // 10
    assert bench.answer(bench.want("c-crowd", "n1", 9)).error == "Full"
    assert bench.answer(bench.want("c-more", "n1", 2)) is None


def test_one_more_than_may_wait_is_refused_and_those_before_have_their_turn():
    bench = Bench(1)
    held = bench.held("c-first", "n1", 1)
    crowd(bench, PLACES_MAX - 1, clients=2_500)
    assert len(bench.baton("n1").relay.turns) == PLACES_MAX
    refusal = bench.answer(bench.want("c-more", "n1", 2))
    assert refusal.error == "Full"
    assert NAME in refusal.text
    again = bench.want("c-crowd-10", "n1", 10)  # who waits already may ask again
    assert bench.answer(again) is None
    bench.release("c-first", 1, held)
    assert isinstance(bench.answer(again), Granted)
    for at in range(2_500):
        bench.gone(f"c-crowd-{at}", "n1")
    bench.pass_time(seconds(2))
    assert isinstance(bench.answer(bench.want("c-more", "n1", 3)), Granted)


def fire(bench: Bench) -> int:
    """The next timer; how many lines its node ran for it."""
    (node, timer), at = min(bench.timers.items(), key=lambda one: one[1])
    del bench.timers[node, timer]
    bench.now = max(bench.now, at)
    effects: list[Any] = []
    lines = lines_of(lambda: effects.extend(bench.hosts[node].handle(Expired(timer), bench.now)))
    for effect in effects:
        bench._carry_out(node, effect)
    bench.words.clear()
    return lines


def test_those_who_wait_are_answered_without_a_look_at_all_the_others():
    def cost(count: int) -> float:
        bench = Bench(1)
        bench.held("c-first", "n1", 1)
        crowd(bench, count)
        end, lines = bench.now + seconds(2), 0
        while bench.now < end:
            lines += fire(bench)
        return lines / count

    few, many = cost(250), cost(2_000)
    assert many < 2 * few, (few, many)


def test_the_doubts_of_thousands_do_not_end_their_node():
    bench = Bench(1)
    held = bench.held("c-first", "n1", 1)
    crowd(bench, PLACES_MAX - 1)
    for _ in range(6):
        bench.pass_time(seconds(1))
        bench.keep("c-first", 1, held)
        for ticket in range(10, 2_010):
            bench.want("c-crowd", "n1", ticket)
    bench.release("c-first", 1, held)
    assert bench.states() == {"n1": "held"}


def test_thousands_of_batons_that_two_want_are_looked_at_some_at_a_time():
    def longest(count: int) -> int:
        bench = Bench(1)
        for name in range(count):
            for ticket in (1, 2):
                call = Call(bench.calls, Acquire(f"lock-{name}", ticket, seconds(2)))
                bench.hosts[NodeId("n1")].handle(Received(NodeId("c-two"), call), bench.now)
        end, most = bench.now + seconds(5), 0
        while bench.now < end:
            most = max(most, fire(bench))
        return most

    assert longest(1_500) < 1.5 * longest(600)


def test_a_tree_that_changes_under_thousands_of_names_holds_nobody_up():
    """Each arrow follows when it is next looked at: all at once took a third of a second."""
    me, other, now = NodeId("n1"), NodeId("n2"), Instant(10**9)
    node = BatonNode(me, BatonSettings(), Random(1))
    members = tuple(Member(one, Address("127.0.0.1", 1), 1, 1) for one in (me, other))
    facts = Current(Instant(10**15)), View(1, 1, me, members), Branch(None, (other,))
    for fact in facts:
        node.handle(Announced(fact), now)
    names = [f"name{number}" for number in range(2_000)]
    for ticket, name in enumerate(names, 1):
        call = Acquire(name, ticket, Duration(0))
        node.handle(Requested(OperationId(NodeId("c-many"), ticket), call), now)
    arrows = node._ways
    assert arrows._ways[names[7]].arrow.edges.keys() == {other}
    lines = lines_of(lambda: node.handle(Announced(Branch(other, ())), now))
    assert lines < len(names) / 10
    assert arrows._known(names[7]).arrow.edges.keys() == set()
    assert arrows._known(names[7]).arrow.parent == other
    for _ in range(PARTS):  # a beat
        now = later(now, Duration(BatonSettings().beat // PARTS))
        node.handle(Expired(BatonAlarm.BEAT), now)
    assert {way.arrow.parent for way in arrows._ways.values()} == {other}


def test_names_beyond_some_cost_no_more_of_a_beat():
    """Who makes 10,000 batons and leaves them took all of a processor for a minute."""
    me, now = NodeId("n1"), Instant(10**9)
    took = []
    for count in (200, 3_000):
        node = BatonNode(me, BatonSettings(), Random(1))
        view = View(1, 1, me, (Member(me, Address("127.0.0.1", 1), 1, 1),))
        for fact in (Current(Instant(10**15)), view, Branch(None, ())):
            node.handle(Announced(fact), now)
        for ticket in range(1, count + 1):
            call = Acquire(f"name{ticket}", ticket, Duration(0))
            node.handle(Requested(OperationId(NodeId("c-many"), ticket), call), now)
        lines = 0
        for part in range(PARTS):
            at = later(now, Duration(BatonSettings().beat * (1 + part / PARTS)))
            looked = lines_of(lambda node=node, at=at: node.handle(Expired(BatonAlarm.BEAT), at))
            lines = max(lines, looked) if part else 0  # the first one lists them
        took.append(lines)
    few, many = took
    assert many < 2 * few


def asked(bench: Bench) -> list[str]:
    """Names whose census is on its way to the second node."""
    return [
        message.name
        for _, target, message in bench.words
        if isinstance(message, CensusQuery) and target == "n2"
    ]


def wanted(count: int) -> Bench:
    """Thousands of names that nobody knows are wanted, and nobody hears of the censuses."""
    bench = Bench(2, checked_every=97)
    for number in range(count):
        bench.want("c-many", "n1", number + 1, f"name{number}")
    bench.pass_time(seconds(0.1), but=(CensusQuery,))
    return bench


def test_of_thousands_of_censuses_so_many_are_under_way_and_the_others_have_their_turn() -> None:
    bench = wanted(1_000)
    assert len(asked(bench)) == AT_ONCE
    bench.run(but=(Predecessor,))
    states = {bench.answer(one) for one in bench.answers}
    assert len(bench.answers) == 1_000
    assert all(isinstance(state, Granted) for state in states)


def test_who_answers_late_is_not_asked_for_all_of_them_again_and_again() -> None:
    bench = wanted(1_000)
    bench.pass_time(seconds(6), but=(CensusQuery,))
    assert len(asked(bench)) < 5 * AT_ONCE


def test_what_the_root_kept_of_names_is_dropped_when_nobody_complains_any_more() -> None:
    bench = wanted(2 * AT_ONCE)
    bench.run()
    bench.gone("c-many", "n1")
    bench.pass_time(seconds(30))
    assert len(bench.machine("n1")._registrar.censuses) <= AT_ONCE


def test_lives_are_as_good_where_arrows_follow_late(monkeypatch):
    monkeypatch.setattr("snowmelt.protocols.baton.arrows.AT_ONCE", -1)
    for seed in range(2):
        report = live(drawn("baton", seed, KINDS), family("baton"))
        assert (report.ending, report.sentence) == (Ending.SETTLED, "")


def observed(bench: Bench, span: Duration) -> int:
    """How often the edges of any name are observed meanwhile."""
    end, count, bench.now = later(bench.now, span), 0, bench.now
    while bench.now < end:
        (node, timer), at = min(bench.timers.items(), key=lambda one: one[1])
        del bench.timers[node, timer]
        bench.now = max(bench.now, at)
        bench.give(node, Expired(timer))
        count += sum(
            isinstance(word, Along) and isinstance(word.message, Observer)
            for _, _, word in bench.words
        )
        bench.run()
    return count


def used(count: int) -> Bench:
    """So many names were used at the second node a moment ago, and nobody wants them any more."""
    bench = Bench(2)
    for number in range(count):
        bench.want("c-many", "n2", number + 1, f"name{number}")
        bench.run()
    bench.gone("c-many", "n2")
    bench.pass_time(seconds(6))
    return bench


def test_of_many_names_those_that_nobody_uses_are_observed_ever_less_often() -> None:
    few, many = (observed(used(count), seconds(40)) / count for count in (50, 200))
    assert 16 <= few <= 24
    assert many < few / 3


def test_names_to_which_nothing_happens_are_hardly_looked_at() -> None:
    """Each was looked at twice on each beat: of thousands that took a third of a small node."""

    def looked(count: int) -> int:
        bench, lines = used(count), 0
        bench.pass_time(seconds(10))
        end = later(bench.now, seconds(5))
        while bench.now < end:
            lines += fire(bench)
        return lines

    beats, nodes = 10, 2
    of_each = (looked(440) - looked(110)) / 330 / beats / nodes
    assert of_each < 4


def test_of_many_names_one_that_is_used_is_observed_as_soon_as_of_few() -> None:
    bench = used(200)
    bench.pass_time(seconds(20))
    way = bench.machine("n1")._ways._ways["name7"]
    assert way.rests > later(bench.now, seconds(2))
    bench.want("c-again", "n1", 1, "name7")
    bench.run()
    assert way.rests <= bench.now
    bench.machine("n2")._ways._ways["name7"].arrow.arrow.points_at = NodeId("n1")
    bench.machine("n1")._ways._ways["name7"].arrow.arrow.points_at = NodeId("n2")  # a ring of two
    bench.pass_time(seconds(5))
    again = bench.want("c-more", "n2", 1, "name7")
    bench.pass_time(seconds(5))
    assert isinstance(bench.answer(again), Granted)
