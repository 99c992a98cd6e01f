"""The baton's rules, by number, on a bench of real machines."""

from typing import Any

import msgspec
import pytest
from baton_bench import LEASE, NAME, Bench

from snowmelt.core.instant import Instant, milliseconds, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import Announced, Received
from snowmelt.protocols.arrow import Find, OrderPlace
from snowmelt.protocols.baton.calls import (
    Acquire,
    GetBaton,
    Granted,
    HeldAt,
    Queued,
    Release,
    Released,
    Renewed,
    ValueSaved,
)
from snowmelt.protocols.baton.fences import COUNT_BITS
from snowmelt.protocols.baton.messages import (
    Along,
    Arrived,
    Backup,
    BatonGot,
    BatonState,
    BatonTaken,
    CensusQuery,
    CensusReply,
    CensusRound,
    Drop,
    Fold,
    Pass,
    Reached,
    SeekBaton,
    Version,
)
from snowmelt.protocols.baton.retired_names import NameRecord
from snowmelt.protocols.calling import Came, Declined, Elsewhere, Gone
from snowmelt.protocols.membership import Current
from snowmelt.wire.codec import encode

BEAT = milliseconds(500)
ADDRESS = Address("n3", 1)


@pytest.fixture
def bench():
    return Bench(4)


def test_rule_2_a_name_that_was_never_used_is_granted_at_once(bench):
    granted = bench.held("c1", "n3", 1)
    assert granted.value == b""
    assert granted.made < granted.fence or granted.made == granted.fence
    assert bench.states() == {"n3": "held"}


def test_rule_7_the_baton_goes_straight_to_the_next_with_a_larger_fence_and_the_value(bench):
    first = bench.held("c1", "n2", 1)
    second, third = bench.want("c2", "n3", 2), bench.want("c3", "n4", 3)
    bench.run()
    assert bench.answer(second) is None
    bench.words.clear()
    released = bench.release("c1", 1, first, b"head 7")
    passes = [word for word in bench.words if isinstance(word[2], Pass)]
    assert [(source, target) for source, target, _ in passes] == [("n2", "n3")]
    bench.run()
    assert bench.answer(released) == Released()
    granted = bench.answer(second)
    assert granted.fence > first.fence
    assert granted.value == b"head 7"
    assert bench.answer(third) is None
    bench.release("c2", 2, granted)
    bench.run()
    assert bench.answer(third).value == b"head 7"
    assert bench.answer(third).fence > granted.fence


def test_rule_7_waiters_at_the_holders_node_need_no_word_between_nodes(bench):
    first = bench.held("c1", "n2", 1)
    waiting = bench.want("c2", "n2", 2)
    bench.run()
    bench.words.clear()
    bench.release("c1", 1, first)
    assert bench.answer(waiting).fence == first.fence + 1
    assert not bench.words


def test_rule_6_one_who_gave_up_is_passed_over(bench):
    first = bench.held("c1", "n2", 1)
    bench.want("c2", "n3", 2)
    bench.run()
    third = bench.want("c3", "n4", 3)
    bench.run()
    over = bench.call("c2", "n3", Release(NAME, 2, 0, None, None))
    assert bench.answer(over) == Released()
    bench.release("c1", 1, first)
    bench.run()
    assert bench.answer(third).fence > first.fence


def test_rule_5_whose_find_got_lost_gets_another_place(bench):
    first = bench.held("c1", "n2", 1)
    second = bench.want("c2", "n3", 2)
    lost = [word for word in bench.words if isinstance(word[2], Along)]
    assert any(isinstance(word[2].message, Find) for word in lost)
    bench.words.clear()
    bench.release("c1", 1, first)
    bench.pass_time(seconds(1))
    assert bench.answer(second) is None
    for _ in range(8):
        again = bench.want("c2", "n3", 2)
        bench.pass_time(seconds(1))
        if bench.answer(again) is not None and not isinstance(bench.answer(again), Queued):
            break
    assert bench.answer(again).fence > first.fence


def test_rule_8_a_pass_that_got_lost_is_sent_again_and_one_that_came_twice_falls(bench):
    first = bench.held("c1", "n2", 1)
    second = bench.want("c2", "n3", 2)
    bench.run()
    bench.release("c1", 1, first)
    (passed,) = [word for word in bench.words if isinstance(word[2], Pass)]
    bench.words.clear()
    assert bench.states() == {"n2": "moving"}
    bench.pass_time(BEAT)
    granted = bench.answer(second)
    assert granted.fence == first.fence + 1
    assert bench.states() == {"n3": "held"}
    bench.words.append(passed)
    bench.run()
    assert bench.states() == {"n3": "held"}
    bench.release("c2", 2, granted)
    bench.words.append(passed)
    bench.run()
    assert bench.states() == {"n3": "idle"}


def test_rule_8_and_12_a_token_on_its_way_to_a_dead_node_is_made_anew_after_a_lease(bench):
    first = bench.held("c1", "n2", 1)
    bench.want("c2", "n3", 2)
    third = bench.want("c3", "n4", 3)
    bench.run()
    bench.kill("n3")
    bench.release("c1", 1, first, b"handed on")
    bench.run()
    bench.view("n1", "n2", "n4")
    bench.pass_time(seconds(1))
    assert bench.states() == {}
    end = bench.now + LEASE + seconds(6)
    while bench.answer(third) is None or isinstance(bench.answer(third), Queued):
        if bench.answer(third) is not None:
            third = bench.want("c3", "n4", 3)
        bench.pass_time(seconds(0.5))
        assert bench.now < end, "it was never made anew"
    granted = bench.answer(third)
    assert granted.made != first.made
    assert granted.fence > first.fence + 1
    assert granted.value == b"handed on"


def test_rule_9_a_node_that_is_cut_off_lets_the_baton_fall_and_its_holder_learns_it(bench):
    first = bench.held("c1", "n2", 1)
    bench.cut_off("n2")
    answer = bench.keep("c1", 1, first)
    assert isinstance(answer, Declined)
    assert answer.error == "BatonLost"
    assert "cut off" in answer.text


def test_rule_9_a_node_that_leaves_in_order_hands_in_what_rests_with_it(bench):
    first = bench.held("c1", "n2", 1)
    bench.release("c1", 1, first, b"kept")
    bench.run()
    bench.cut_off("n2", leaving=True)
    bench.run()
    bench.kill("n2")
    bench.view("n1", "n3", "n4")
    assert bench.states() == {"n1": "idle"}
    asked = bench.want("c2", "n3", 2)
    bench.pass_time(seconds(1.5))
    assert bench.answer(asked).made == first.made
    assert bench.answer(asked).value == b"kept"


def test_rule_9_a_node_that_slept_takes_and_grants_nothing_with_whatever_event_wakes_it(bench):
    first = bench.held("c1", "n2", 1)
    bench.give(NodeId("n2"), Announced(Current(bench.now + seconds(9))))
    bench.timers = {key: at for key, at in bench.timers.items() if key[0] != "n2"}
    second = bench.want("c2", "n2", 2)
    bench.now = bench.now + seconds(9)
    released = bench.answer(bench.release("c1", 1, first))
    assert released.error == "BatonLost"
    assert bench.answer(second) is None
    assert "n2" not in bench.states()


def test_rule_9_after_a_restart_the_holder_is_told_by_any_node(bench):
    first = bench.held("c1", "n2", 1)
    bench.start("n2")
    bench.view("n1", "n2", "n3", "n4")
    bench.run()
    told = [bench.keep("c1", 1, first, node=node) for node in ("n2", "n3")]
    assert [one.error for one in told] == ["BatonLost", "BatonLost"]
    assert "n2, where it was held, is gone" in told[1].text


def test_rule_10_who_stood_behind_a_dead_waiter_gets_a_resting_baton(bench):
    first = bench.held("c1", "n2", 1)
    bench.want("c2", "n3", 2)
    bench.run()
    third = bench.want("c3", "n4", 3)
    bench.run()
    bench.kill("n3")
    bench.view("n1", "n2", "n4")
    bench.run()
    bench.release("c1", 1, first)
    bench.pass_time(seconds(1.5))
    granted = bench.answer(third)
    assert granted.made == first.made  # it was not made anew: it had rested
    assert bench.states() == {"n4": "held"}


def test_rule_11_a_pass_from_before_the_census_falls_and_comes_again(bench):
    first = bench.held("c1", "n2", 1)
    second = bench.want("c2", "n3", 2)
    bench.run()
    bench.release("c1", 1, first)
    (early,) = [word for word in bench.words if isinstance(word[2], Pass)]
    bench.words.clear()
    baton = bench.baton("n3")
    baton.relay.tell(NodeId("n1"), CensusRound(9, 9), asleep=False)
    bench.words.append(early)
    bench.run()
    assert bench.answer(second) is None
    bench.pass_time(BEAT)
    assert bench.answer(second) is None  # n2 has not answered that census
    bench.baton("n2").relay.tell(NodeId("n1"), CensusRound(9, 9), asleep=False)
    bench.pass_time(BEAT)
    assert bench.answer(second).fence == first.fence + 1


def test_rule_11_what_is_on_its_way_is_sent_again_with_the_answer(bench):
    """Beats in step with the root's questions sent what the next question let fall, for ever."""
    first = bench.held("c1", "n2", 1)
    bench.want("c2", "n3", 2)
    bench.run()
    bench.release("c1", 1, first)
    bench.words.clear()
    relay = bench.baton("n2").relay
    told, again = (
        send.message for send in relay.tell(NodeId("n1"), CensusRound(9, 9), asleep=False)
    )
    assert isinstance(told, CensusReply)
    assert (again.fence, again.census) == (first.fence + 1, CensusRound(9, 9))


def test_rule_11_of_two_tokens_the_older_is_void(bench):
    first = bench.held("c1", "n2", 1)
    relay = bench.baton("n4").relay
    relay.begin(relay.ask(77, bench.now)[0], first.fence + 50, bench.now)
    relay.renounce([relay.token.place], bench.now)
    bench.words.clear()
    assert set(bench.states()) == {"n2", "n4"}
    bench.want("c3", "n3", 3)
    for _ in range(4):
        bench.pass_time(seconds(1.9))
        bench.want("c3", "n3", 3)
    assert len(bench.states()) == 1
    assert bench.keep("c1", 1, first).error == "BatonLost"


def test_rule_12_a_fence_never_goes_back_though_every_node_begins_again(bench):
    first = bench.held("c1", "n2", 1)
    for node in ("n1", "n2", "n3", "n4"):
        bench.start(node)
    bench.view("n1", "n2", "n3", "n4")
    asked = bench.want("c1", "n2", 5)
    bench.pass_time(seconds(1.9))
    assert bench.answer(asked) is None  # the root may have forgotten who holds
    for _ in range(6):
        bench.pass_time(seconds(1.9))
        asked = bench.want("c1", "n2", 5)
        if bench.answer(asked) is not None:
            break
    granted = bench.answer(asked)
    assert granted.fence > first.fence
    assert granted.fence >> COUNT_BITS > first.fence >> COUNT_BITS


def test_rule_13_a_silent_holder_loses_it_and_one_that_renews_does_not(bench):
    first = bench.held("c1", "n2", 1)
    second = bench.want("c2", "n3", 2)
    for _ in range(4):
        bench.pass_time(seconds(1.9))
        assert bench.keep("c1", 1, first) == Renewed(LEASE)
        assert isinstance(bench.answer(second), Queued | None)
        second = bench.want("c2", "n3", 2)
    waited = 0
    while not hasattr(bench.answer(second), "fence"):
        bench.pass_time(seconds(1))
        waited += 1
        if bench.answer(second) is not None and not hasattr(bench.answer(second), "fence"):
            second = bench.want("c2", "n3", 2)
        assert waited <= 6
    assert waited >= 4
    lost = bench.keep("c1", 1, first)
    assert lost.error == "BatonLost"
    assert "its lease was over" in lost.text


def test_rule_13_a_want_nobody_asks_for_again_is_given_up(bench):
    first = bench.held("c1", "n2", 1)
    asked = bench.want("c2", "n3", 2)
    bench.pass_time(seconds(2.1))
    assert bench.answer(asked) == Queued()
    bench.pass_time(seconds(2.8))
    bench.keep("c1", 1, first)
    bench.pass_time(seconds(1))
    bench.release("c1", 1, first)
    bench.run()
    bench.pass_time(BEAT)
    assert list(bench.states().values()) == ["idle"]


def test_rule_13_a_client_whose_connections_ended_has_a_moment(bench):
    first = bench.held("c1", "n2", 1)
    second = bench.want("c2", "n3", 2)
    bench.run()
    bench.gone("c1", "n2")
    bench.pass_time(seconds(0.9))
    assert bench.answer(second) is None
    bench.pass_time(seconds(0.2))
    assert bench.answer(second).fence > first.fence


def test_rule_13_calls_that_come_twice_are_done_once(bench):
    first = bench.held("c1", "n2", 1)
    again = bench.call("c1", "n2", Acquire(NAME, 1, seconds(2)))
    assert bench.answer(again) == first
    bench.release("c1", 1, first)
    twice = bench.release("c1", 1, first)
    assert bench.answer(twice) == Released()
    kept = bench.keep("c1", 1, first)
    assert kept.error == "BatonLost"
    assert "given up already" in kept.text
    wanted = bench.answer(bench.want("c1", "n2", 1))
    assert wanted.error == "BatonLost"


def test_rule_13_a_node_that_does_not_hold_says_who_does(bench):
    first = bench.held("c1", "n2", 1)
    assert bench.keep("c1", 1, first, node="n3") == Elsewhere(first.where.node, first.where.address)


def test_rule_14_a_saved_value_is_on_the_roots_disk_before_it_is_told(bench):
    first = bench.held("c1", "n2", 1)
    saved = bench.save("c1", 1, first, b"kept")
    bench.run(but=(Backup,))
    assert bench.answer(saved) is None
    bench.run()
    assert bench.answer(saved) == ValueSaved()
    assert any(b"kept" in value for value in bench.disk[NodeId("n1")].values())


def test_rule_14_a_baton_that_was_made_again_elsewhere_saves_nothing_any_more(bench):
    first = bench.held("c1", "n2", 1)
    bench.machine("n1")._registrar._made[NAME] = first.fence + 50
    saved = bench.save("c1", 1, first, b"of the old one")
    bench.run()
    assert bench.answer(saved).error == "BatonLost"
    assert not any(NAME.encode() in key for key in bench.disk[NodeId("n1")])


def test_rule_14_an_older_value_never_takes_the_place_of_a_newer_one(bench):
    first = bench.held("c1", "n2", 1)
    saved = bench.save("c1", 1, first, b"first")
    late = [word for word in bench.words if isinstance(word[2], Backup)]
    bench.words.clear()
    bench.release("c1", 1, first, b"second")
    bench.run()
    bench.words.extend(late)
    bench.run()
    assert bench.answer(saved) == ValueSaved()
    written = [value for value in bench.disk[NodeId("n1")].values() if b"first" in value]
    assert not written


def granted_at_last(bench, client, node, ticket):
    for _ in range(8):
        asked = bench.want(client, node, ticket)
        bench.pass_time(seconds(1.9))
        if hasattr(bench.answer(asked), "fence"):
            return bench.answer(asked)
    raise AssertionError("it was never made anew")


def test_rule_14_a_new_baton_has_the_newest_value_though_the_root_has_not_heard_of_it(bench):
    first = bench.held("c1", "n2", 1)
    second = bench.want("c2", "n3", 2)
    bench.run()
    bench.release("c1", 1, first, b"newest")
    bench.run(but=(Backup,))
    assert hasattr(bench.answer(second), "fence")
    lost = [word for word in bench.words if isinstance(word[2], Backup)]
    assert lost
    bench.words.clear()
    bench.cut_off("n3")
    bench.start("n3")
    bench.view("n1", "n2", "n3", "n4")
    granted = granted_at_last(bench, "c4", "n4", 4)
    assert granted.made != first.made
    assert granted.value == b"newest"


def test_rule_5_while_one_holds_for_long_few_places_are_asked_for(bench):
    first = bench.held("c1", "n2", 1)
    bench.want("c3", "n4", 3)
    bench.run()
    relay = bench.baton("n4").relay
    for turn in relay.turns:
        turn.before, turn.cut = None, True
    bench.baton("n2").relay.prune([NodeId("n4")])
    for _ in range(120):
        bench.pass_time(seconds(1))
        bench.want("c3", "n4", 3)
        bench.keep("c1", 1, first)
    assert 2 <= len([turn for turn in relay.turns if turn.ticket == 3]) <= 8


def test_rule_14_a_value_from_before_the_last_making_is_not_waited_for(bench):
    """Its node was out when the baton was made; the root asked for ever, and never took it."""
    first = bench.held("c1", "n2", 1)
    registrar = bench.machine("n1")._registrar
    registrar._made[NAME] = first.fence + 50
    late = bench.baton("n4").relay
    late.newest.learn(Version(first.fence + 10), b"too late")
    bench.cut_off("n2")
    bench.start("n2")
    bench.view("n1", "n2", "n3", "n4")
    granted = granted_at_last(bench, "c3", "n3", 3)
    assert granted.made != first.made
    assert granted.value == b""


def test_rule_14_values_outlive_all_nodes_on_the_roots_disk(bench):
    first = bench.held("c1", "n2", 1)
    bench.release("c1", 1, first, b"kept")
    bench.run()
    for node in ("n1", "n2", "n3", "n4"):
        bench.start(node)
    bench.view("n1", "n2", "n3", "n4")
    assert granted_at_last(bench, "c2", "n3", 2).value == b"kept"


def test_another_machine_of_the_node_holds_until_it_drops(bench):
    node = NodeId("n3")
    bench.give(node, Announced(SeekBaton(NAME, 9)))
    bench.run()
    (got,) = [fact for _, fact in bench.facts if isinstance(fact, BatonGot)]
    assert (got.name, got.ticket, got.value) == (NAME, 9, b"")
    bench.pass_time(seconds(30))
    assert bench.states() == {"n3": "held"}
    waiting = bench.want("c1", "n2", 1)
    bench.run()
    bench.give(node, Announced(Drop(NAME, 9, b"17")))
    bench.run()
    assert bench.answer(waiting).value == b"17"
    bench.give(node, Announced(SeekBaton(NAME, 10)))
    bench.run()
    bench.release("c1", 1, bench.answer(waiting))
    bench.run()
    bench.cut_off("n3")
    assert (node, BatonTaken(NAME, 10)) in bench.facts


def test_bad_names_and_values_are_refused_by_name(bench):
    refused = bench.answer(bench.call("c1", "n2", Acquire("a/b", 1, seconds(1))))
    assert refused.error == "BadOption"
    assert "'a/b'" in refused.text
    first = bench.held("c1", "n2", 1)
    large = bench.answer(bench.release("c1", 1, first, bytes((1 << 20) + 1)))
    assert large.error == "TooLarge"
    assert bench.states() == {"n2": "held"}


def test_a_client_may_look_at_the_baton_of_a_topic_and_not_hold_it(bench):
    refused = bench.answer(bench.call("c1", "n2", Acquire("multicast.a", 1, seconds(1))))
    assert refused.error == "BadOption"
    assert "'multicast.a'" in refused.text
    assert not isinstance(bench.answer(bench.call("c1", "n2", GetBaton("multicast.a"))), Declined)


def test_words_from_nowhere_change_nothing(bench):
    first = bench.held("c1", "n2", 1)
    for word in (
        Arrived(NAME, first.fence),
        CensusReply(NAME, CensusRound(1, 1), "held", 1, Version()),
    ):
        bench.words.append((NodeId("n9"), NodeId("n2"), word))
        bench.words.append((NodeId("n9"), NodeId("n1"), word))
    bench.run()
    assert bench.states() == {"n2": "held"}


def test_rule_6_a_place_that_the_one_before_it_has_forgotten_finds_out(bench):
    """A node that was out of the view, and does not know it: the others forgot its places."""
    first = bench.held("c1", "n2", 1)
    bench.want("c3", "n4", 3)
    bench.run()
    relays = [bench.baton(one).relay for one in ("n2", "n4")]
    assert relays[0].prune([NodeId("n4")]) == []
    (turn,) = [one for one in relays[1].turns if one.ticket == 3]
    for _ in range(5):
        bench.pass_time(seconds(1))
        bench.want("c3", "n4", 3)
        bench.keep("c1", 1, first)
    assert turn.cut
    assert len([one for one in relays[1].turns if one.ticket == 3]) > 1  # it has asked anew


def test_rule_6_the_whole_of_a_torn_chain_asks_anew(bench):
    first = bench.held("c1", "n1", 1)
    for number, node in ((2, "n2"), (3, "n3"), (4, "n4")):
        bench.want(f"c{number}", node, number)
        bench.run()
    bench.kill("n2")
    bench.view("n1", "n3", "n4")
    bench.run()
    turns = bench.baton("n4").relay.turns
    assert [turn.cut for turn in turns if turn.ticket == 4] == [True]
    assert bench.keep("c1", 1, first) == Renewed(LEASE)


# --- rule 15 --------------------------------------------------------------------------------------

LONG = seconds(250)


def test_rule_15_a_name_that_nobody_uses_is_folded_by_all_and_costs_nothing_to_use_again(bench):
    first = bench.held("c1", "n3", 1)
    bench.release("c1", 1, first, b"left behind")
    bench.pass_time(LONG)
    for node in bench.hosts:
        assert bench.kept(node) == (0, 0)
    assert bench.states() == {"n1": "idle"}
    assert bench.kept("n1") == (0, 0)  # to look at it does not unfold it
    bench.words.clear()
    second = bench.want("c2", "n4", 2)
    said = bench.run_and_tell()
    granted = bench.answer(second)
    assert (granted.made, granted.value) == (first.made, b"left behind")
    assert granted.fence > first.fence
    assert CensusQuery not in said  # nothing was lost, so nothing is looked for


def test_rule_15_a_name_that_is_held_for_long_is_not_folded(bench):
    first = bench.held("c1", "n3", 1)
    for _ in range(150):
        bench.pass_time(seconds(1))
        assert bench.keep("c1", 1, first) == Renewed(LEASE)
    assert bench.states() == {"n3": "held"}
    bench.release("c1", 1, first)
    bench.pass_time(seconds(30))
    assert bench.states() == {"n3": "idle"}  # it may be wanted again soon
    bench.pass_time(LONG)
    assert bench.states() == {"n1": "idle"}


def test_rule_15_a_name_that_is_used_again_and_again_stays_where_it_is(bench):
    for turn in range(1, 20):
        held = bench.held("c1", "n3", turn)
        bench.release("c1", turn, held)
        bench.pass_time(seconds(20))
    assert bench.states() == {"n3": "idle"}


def test_rule_15_who_did_not_hear_of_the_folding_asks_again(bench):
    bench.release("c1", 1, bench.held("c1", "n3", 1))
    bench.pass_time_until(Fold)
    bench.words = type(bench.words)(one for one in bench.words if one[1] != "n4")
    bench.run()
    assert bench.kept("n2") == (0, 0)
    assert bench.kept("n4") != (0, 0)
    bench.pass_time(LONG)
    assert bench.kept("n4") == (0, 0)


def test_rule_15_who_begins_to_want_it_meanwhile_is_served(bench):
    first = bench.held("c1", "n3", 1)
    bench.release("c1", 1, first)
    bench.pass_time_until(Fold)
    asked = bench.want("c2", "n4", 2)
    bench.run()  # the folding arrives, and the find behind it
    assert bench.answer(asked).made == first.made


def test_rule_15_whose_arrow_points_elsewhere_does_not_fold_and_has_it_mended(bench):
    first = bench.held("c1", "n3", 1)
    bench.release("c1", 1, first)
    bench.pass_time(seconds(1))
    bench.give(NodeId("n3"), Received(NodeId("n1"), Fold(NAME, first.fence)))
    assert bench.states() == {"n3": "idle"}
    assert bench.kept("n3") == (1, 1)
    way = bench.machine("n3")._ways._ways[NAME]
    bench.pass_time(seconds(90))
    assert way.awake < bench.now
    bench.give(NodeId("n3"), Received(NodeId("n1"), Fold(NAME, first.fence)))
    assert way.awake > bench.now


def test_rule_15_an_old_pass_is_no_baton_after_the_folding(bench):
    first = bench.held("c1", "n2", 1)
    bench.want("c2", "n3", 2)
    bench.run()
    bench.release("c1", 1, first)
    (early,) = [word for word in bench.words if isinstance(word[2], Pass)]
    bench.run()
    (token,) = [bench.baton(node).relay.token for node in ("n3",)]
    bench.release("c2", 2, Granted(token.fence, 0, b"", LEASE, HeldAt(NodeId("n3"), 2, ADDRESS)))
    bench.pass_time(LONG)
    assert bench.kept("n3") == (0, 0)
    bench.words.append(early)
    bench.run()
    assert bench.states() == {"n1": "idle"}


def test_rule_15_what_was_lost_with_its_node_is_folded_too(bench):
    first = bench.held("c1", "n3", 1)
    bench.save("c1", 1, first, b"saved")
    bench.run()
    bench.kill("n3")
    bench.view("n1", "n2", "n4")
    bench.pass_time(LONG)
    bench.pass_time(LONG)
    for node in bench.hosts:
        assert bench.kept(node) == (0, 0)
    granted = bench.held("c2", "n4", 2)
    assert granted.value == b"saved"
    assert granted.made > first.fence


def test_rule_15_a_name_that_was_only_asked_for_is_folded(bench):
    bench.want("c1", "n3", 1)
    bench.words.clear()
    bench.call("c1", "n3", Release(NAME, 1, 0, None, None))
    assert bench.kept("n3") == (1, 1)
    bench.pass_time(LONG)
    for node in bench.hosts:
        assert bench.kept(node) == (0, 0)


def test_rule_15_to_be_asked_is_no_use_but_is_remembered(bench):
    first = bench.held("c1", "n2", 1)
    bench.give(NodeId("n4"), Received(NodeId("n1"), CensusQuery("another", CensusRound(1, 5))))
    bench.give(NodeId("n4"), Received(NodeId("n1"), CensusQuery(NAME, CensusRound(1, 5))))
    assert bench.kept("n4") == (0, 0)
    place = OrderPlace(NodeId("n4"), OperationId(NodeId("n4"), 1), filler=True)
    early = Pass(
        NAME, NodeId("n2"), 2, place, first.fence + 1, first.made, b"", Version(), CensusRound(1, 4)
    )
    bench.give(NodeId("n4"), Received(NodeId("n2"), early))
    assert bench.states() == {"n2": "held"}


def test_rule_15_a_root_that_is_cut_off_rests_nothing(bench):
    first = bench.held("c1", "n3", 1)
    bench.release("c1", 1, first)
    bench.pass_time(LONG)
    bench.cut_off("n1")
    assert bench.states() == {}
    bench.view("n1", "n2", "n3", "n4")
    granted = granted_at_last(bench, "c2", "n4", 2)
    assert granted.made > first.fence


def test_rule_15_fences_grow_though_the_line_is_forgotten(bench):
    first = bench.held("c1", "n3", 1)
    bench.release("c1", 1, first)
    bench.pass_time(LONG)
    for node in bench.hosts:
        folds = bench.machine(node)._names.folds
        folds._most = 0
        folds.put("another", NameRecord())
        assert not list(folds)
    granted = bench.held("c2", "n4", 2)
    assert granted.fence > first.fence
    assert granted.made != first.made


def test_rule_15_names_that_are_folded_make_room_for_others(bench, monkeypatch):
    monkeypatch.setattr("snowmelt.protocols.baton.node.NAMES_MAX", 120)
    for number in range(120):
        name = f"b{number}"
        asked = bench.want(f"c{number}", "n3", number + 1, name)
        bench.run()
        granted = bench.answer(asked)
        bench.call(
            f"c{number}", "n3", Release(name, number + 1, granted.fence, granted.where, None)
        )
        bench.run()
    asked = bench.want("c1", "n3", 1, "one-more")
    assert bench.answer(asked).error == "Full"
    asked = bench.want("c1", "n1", 1, "one-more-at-the-root")
    bench.run()
    assert bench.answer(asked).fence > 0
    bench.pass_time(LONG)
    assert bench.kept("n3") == (0, 0)
    asked = bench.want("c1", "n3", 1, "one-more")
    bench.run()
    assert bench.answer(asked).fence > 0


def kept_on_disk(bench: Bench, name: str = "n1") -> list[bytes]:
    return [key for key in bench.disk[name] if NAME.encode() in key]


@pytest.mark.parametrize("node", ["n1", "n3"])
def test_rule_15_of_an_empty_value_nothing_is_kept(bench, node):
    first = bench.held("c1", node, 1)
    bench.save("c1", 1, first, b"mine")
    bench.run()
    bench.release("c1", 1, first)
    bench.pass_time(LONG)
    assert len(kept_on_disk(bench)) == 2
    bench.release("c1", 2, bench.held("c1", node, 2), b"")
    bench.pass_time(LONG)
    assert not kept_on_disk(bench)
    assert not bench.machine("n1")._names.folds._valued
    late = Backup(NAME, Version(first.fence), b"mine", 7)
    bench.give("n1", Received("n3", late))
    bench.run()
    assert not kept_on_disk(bench)
    again = bench.held("c2", "n4", 3)
    assert (again.value, again.fence > first.fence) == (b"", True)
    bench.save("c2", 3, again, b"anew")
    bench.run()
    assert len(kept_on_disk(bench)) == 2
    bench.release("c2", 3, again)
    bench.run()
    assert bench.held("c1", "n1", 4).value == b"anew"


def test_rule_15_what_is_saved_while_the_empty_record_is_erased_stays(bench):
    first = bench.held("c1", "n1", 1)
    bench.save("c1", 1, first, b"mine")
    bench.run()
    bench.release("c1", 1, first, b"")
    bench.run()
    bench.slow.add("n1")
    bench.pass_time(LONG)
    bench.flush()
    bench.slow.add("n1")
    bench.pass_time(LONG)
    again = bench.held("c2", "n3", 2)
    saved = bench.save("c2", 2, again, b"anew")
    bench.run()
    bench.flush()
    bench.run()
    assert isinstance(bench.answer(saved), ValueSaved)
    assert len(kept_on_disk(bench)) == 2
    bench.start("n1")
    bench.view("n1", "n2", "n4")
    bench.pass_time(LONG)
    assert bench.held("c3", "n1", 5).value == b"anew"


def test_one_who_pays_for_many_clients_leaves_names_to_others(bench, monkeypatch):
    monkeypatch.setattr("snowmelt.protocols.baton.node.NAMES_MAX", 10)

    def uses(number: int) -> Any:
        client, name = f"c{number}", f"b{number}"
        bench.give("n3", Announced(Came(client, "mallory")))
        asked = bench.want(client, "n3", number + 1, name)
        bench.run()
        told = bench.answer(asked)
        if not isinstance(told, Declined):
            bench.call(client, "n3", Release(name, number + 1, told.fence, told.where, None))
            bench.run()
        bench.give("n3", Announced(Gone(client)))
        return told

    assert [isinstance(uses(number), Declined) for number in range(9)] == [False] * 8 + [True]
    bench.give("n3", Announced(Came("c-ann", "ann")))
    asked = bench.want("c-ann", "n3", 77, "of-ann")
    bench.run()
    assert bench.answer(asked).fence > 0
    bench.pass_time(LONG)
    assert not isinstance(uses(99), Declined)


@pytest.mark.parametrize("more", [-3, 50])
def test_rule_15_of_two_tokens_that_nobody_uses_one_is_left(bench, more):
    for ticket in range(1, 7):
        first = bench.held("c1", "n3", ticket)
        bench.release("c1", ticket, first)
    bench.pass_time(LONG)
    assert bench.states() == {"n1": "idle"}
    relay = bench.baton("n4").relay
    relay.begin(relay.ask(77, bench.now)[0], first.fence + more, bench.now)
    relay.renounce([relay.token.place], bench.now)
    bench.words.clear()
    assert set(bench.states()) == {"n1", "n4"}
    bench.pass_time(2 * LONG)
    assert bench.states() == {"n1": "idle"}
    for node in bench.hosts:
        assert bench.kept(node) == (0, 0)
    assert bench.held("c2", "n2", 2).fence > first.fence + more


def test_rule_15_a_root_folds_no_token_that_has_left_since_it_told(bench):
    """It forgot the last value, which none but it could keep, and asked for it for ever."""
    first = bench.held("c1", "n1", 1)
    bench.release("c1", 1, first, b"the last")
    bench.pass_time_until(CensusReply)
    second = bench.want("c2", "n3", 2)
    bench.run(but=(CensusReply,))
    assert bench.answer(second).value == b"the last"
    bench.machine("n1")._ways._ways[NAME].awake = Instant(0)  # as when words were slow
    bench.run()
    assert bench.kept("n1") == (1, 1)


@pytest.mark.parametrize(("more", "folded"), [(-1, True), (1, False)])
def test_rule_15_a_token_that_is_older_than_the_roots_is_void_and_a_newer_one_is_not(
    bench, more, folded
):
    first = bench.held("c1", "n1", 1)
    bench.release("c1", 1, first)
    relay = bench.baton("n4").relay
    relay.begin(relay.ask(77, bench.now)[0], first.fence + more, bench.now)
    relay.renounce([relay.token.place], bench.now)
    arrow = bench.machine("n4")._ways._ways[NAME].arrow
    arrow.arrow.points_at = arrow.parent
    bench.give(NodeId("n4"), Received(NodeId("n3"), Fold(NAME, first.fence)))
    assert bench.kept("n4") == (1, 1)  # only the root may say so
    bench.give(NodeId("n4"), Received(NodeId("n1"), Fold(NAME, first.fence)))
    assert (bench.kept("n4") == (0, 0)) is folded
    assert ("n4" in bench.states()) is not folded


def test_rule_15_a_line_has_the_largest_fence_that_was_there(bench):
    first = bench.held("c1", "n3", 1)
    bench.release("c1", 1, first)
    bench.pass_time(LONG)
    assert bench.machine("n3")._names.folds.get(NAME).fence > first.fence  # as it went to the root
    assert bench.machine("n1")._names.folds.get(NAME).made == first.made


def test_rule_15_who_holds_or_waits_does_not_fold_whatever_the_root_says(bench):
    first = bench.held("c1", "n3", 1)
    second = bench.want("c2", "n4", 2)
    bench.run()
    for node in bench.hosts:
        bench.give(node, Received(NodeId("n1"), Fold(NAME, first.fence + 100)))
    assert bench.states() == {"n3": "held"}
    bench.release("c1", 1, first)
    bench.run()
    assert bench.answer(second).fence == first.fence + 1


def test_rule_15_a_token_that_is_wanted_behind_the_root_is_not_folded_there(bench):
    bench.release("c1", 1, bench.held("c1", "n3", 1))
    bench.pass_time_until(Pass)
    second = bench.want("c2", "n4", 2)
    bench.run(but=(Pass,))
    assert bench.answer(second) is None
    said = bench.run_and_tell()
    assert bench.answer(second).fence > 0
    assert Fold not in said


def test_rule_11_no_two_censuses_have_one_number_whatever_they_are_about(bench):
    numbers = []
    for number, name in enumerate(("a", "b", "c"), 1):
        bench.want("c1", "n3", number, name)
        while bench.words:
            word = bench.words[0][2]
            if isinstance(word, CensusQuery) and bench.words[0][1] == "n2":
                numbers.append(word.census.number)
            bench.run_one()
    assert len(numbers) == 3
    assert numbers == sorted(set(numbers))


LARGEST = (1 << 64) - 1
PLACE = OrderPlace(NodeId("n3"), OperationId(NodeId("c9"), 9))
TOO_FAR = [
    Reached(NAME, LARGEST),
    Reached(NAME, 1 << 62),
    Backup(NAME, Version(LARGEST, 0), b"bad"),
    Backup(NAME, Version(0, LARGEST), b"bad"),
    Pass(NAME, NodeId("n2"), 1, PLACE, LARGEST, 1, b"", Version(), CensusRound()),
    Pass(
        NAME, NodeId("n2"), 1, PLACE, LARGEST, LARGEST, b"bad", Version(LARGEST, 1), CensusRound()
    ),
]


@pytest.mark.parametrize("word", TOO_FAR)
def test_rule_16_a_number_one_cannot_count_on_from_is_dropped_and_the_baton_goes_on(bench, word):
    for node in ("n1", "n3"):
        life = bench.baton(node)._here.life
        said = msgspec.structs.replace(word, life=life) if isinstance(word, Pass) else word
        bench.give(NodeId(node), Received(NodeId("n2"), said))
    bench.view("n1", "n2", "n3", "n4")
    bench.pass_time(seconds(3))
    granted = bench.held("c1", "n3", 1)
    assert granted.value == b""
    assert granted.fence < 1 << 60
    encode(granted)


def test_rule_16_what_a_node_tells_of_a_baton_that_it_cannot_have_is_dropped(bench):
    asked = bench.want("c1", "n3", 1)
    while not isinstance(bench.words[0][2], CensusQuery):
        bench.run_one()
    tell = bench.words[0][2]
    for fence in (LARGEST, -(1 << 63)):
        told = CensusReply(NAME, tell.census, BatonState.NOTHING, fence, Version())
        bench.give(NodeId("n1"), Received(NodeId("n4"), told))
    bench.run()
    assert bench.answer(asked).fence < 1 << 60
