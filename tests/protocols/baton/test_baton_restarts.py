"""What processes that begin again, disks that are hurt, and late words may not undo."""

import pytest
from baton_bench import LEASE, NAME, Bench

from snowmelt.core.instant import SECOND, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announced, Received
from snowmelt.protocols.arrow import OrderPlace
from snowmelt.protocols.baton.calls import (
    BatonReset,
    Granted,
    Queued,
    Release,
    Released,
    ResetBaton,
    SaveValue,
    ValueSaved,
)
from snowmelt.protocols.baton.fences import COUNT_BITS
from snowmelt.protocols.baton.messages import (
    Arrived,
    Backup,
    BatonGot,
    CensusQuery,
    Complaint,
    Follow,
    Pass,
    SeekBaton,
    Stored,
)

ROOT = NodeId("n1")
BEAT = milliseconds(500)


@pytest.fixture
def bench():
    return Bench(4)


def test_rule_8_a_pass_that_is_sent_again_revives_nothing_at_a_process_that_began_since(bench):
    first = bench.held("c1", "n2", 1)
    second = bench.want("c2", "n3", 2)
    bench.run()
    third = bench.want("c3", "n4", 3)
    bench.run()
    bench.release("c1", 1, first, b"old")
    bench.run(but=(Arrived,))
    bench.release("c2", 2, bench.answer(second), b"new")
    bench.run(but=(Arrived,))
    assert bench.answer(third).value == b"new"
    bench.words.clear()  # n2 is never told that what it sent has come
    bench.start("n3")
    bench.view("n1", "n2", "n3", "n4", unheard="n2")
    bench.pass_time(BEAT, but=(Pass,))
    assert [target for _, target, word in bench.words if isinstance(word, Pass)] == ["n3"]
    bench.run()
    assert set(bench.states()) == {"n2", "n4"}
    bench.view("n1", "n2", "n3", "n4")
    assert bench.states() == {"n4": "held"}
    assert bench.baton("n3").relay.fence == 0


def test_rule_3_a_node_that_comes_back_with_an_empty_disk_is_heard(bench):
    for _ in range(3):
        bench.start("n3")
        bench.view("n1", "n2", "n3", "n4")
        bench.pass_time(seconds(3))
    for ticket, node in enumerate(("n3", "n2"), 1):
        bench.release("c1", ticket, bench.held("c1", node, ticket))
        bench.run()
    bench.start("n3", empty=True)  # forgotten and joined again: n1 has not seen it leave
    bench.view("n1", "n2", "n3", "n4")
    bench.pass_time(seconds(8))
    for ticket in range(3, 9):
        held = bench.held(f"c{ticket}", ("n2", "n3", "n4")[ticket % 3], ticket)
        bench.release(f"c{ticket}", ticket, held)
        bench.run()
    assert not any(bench.machine(node)._ways.late for node in ("n1", "n2", "n3", "n4"))


def test_rule_11_a_baton_is_not_sent_to_who_has_left_since_it_complained(bench):
    first = bench.held("c1", "n2", 1)
    bench.release("c1", 1, first)
    bench.run()
    place = OrderPlace(NodeId("n4"), OperationId(NodeId("n4"), 1))
    bench.give(NodeId("n1"), Received(NodeId("n4"), Complaint(NAME, place, orphan=True)))
    bench.view("n1", "n2", "n3")
    bench.run()
    assert bench.states() == {"n2": "idle"}
    bench.give(NodeId("n2"), Received(NodeId("n1"), Follow(NAME, first.fence, place)))
    assert bench.states() == {"n2": "idle"}


ALL = ("n1", "n2", "n3", "n4")


def granted_in_the_end(bench, client, node, ticket):
    """Asks as a client does until it is granted, and stops at that very moment."""
    for _ in range(30):
        asked = bench.want(client, node, ticket)
        while (answer := bench.answer(asked)) is None:
            bench.pass_time(milliseconds(100))
        if isinstance(answer, Granted):
            return answer
    raise AssertionError("nothing ever came")


@pytest.mark.parametrize("comes_back", [True, False])
def test_rule_12_a_root_that_began_again_waits_for_a_lease_after_each_loss(bench, comes_back):
    """The only other node that knew of the baton went some seconds after the root had come back."""
    first = bench.held("c1", "n2", 1)
    bench.start("n1")
    bench.view(*ALL)
    bench.pass_time(seconds(4.5))
    bench.keep("c1", 1, first)
    believed_until = later(bench.now, LEASE)
    if comes_back:
        bench.start("n2")
        bench.view(*ALL)
    else:
        bench.kill("n2")
        bench.view("n1", "n3", "n4")
    second = granted_in_the_end(bench, "c2", "n3", 2)
    assert bench.now >= believed_until
    assert second.fence > first.fence


def test_rule_11_a_question_that_comes_twice_is_answered_once(bench):
    """A token that is handed on between the two answers would be nowhere, and be made anew."""
    here, there = "n2", "n3"
    held = bench.held("c1", here, 1)
    orphan = OrderPlace(NodeId("n4"), OperationId(NodeId("n4"), 1))
    for ticket in (1, 2):
        waits = bench.want("c1", there, ticket + 1)
        bench.run()
        bench.give(ROOT, Received(NodeId("n4"), Complaint(NAME, orphan, orphan=True)))
        asked = {word[1]: word for word in bench.words if isinstance(word[2], CensusQuery)}
        bench.words.remove(asked["n4"])  # it comes last
        bench.run()
        bench.release("c1", ticket, held)
        bench.run()
        bench.words.extend((asked[here], asked["n4"]))
        bench.run()
        bench.now = later(bench.now, seconds(5.4))
        here, there, held = there, here, bench.answer(waits)
    assert bench.states() == {here: "held"}


# --- the root's disk ------------------------------------------------------------------------------


def restarted(bench, *empty):
    """All processes begin again, on the disks that they have, or on empty ones."""
    for node in ("n1", "n2", "n3", "n4"):
        bench.start(node, empty=node in empty)
    bench.view("n1", "n2", "n3", "n4")


def asked_for_long(bench, client, node, ticket):
    """The last answer to somebody who asks again as long as it is told to wait."""
    for _ in range(8):
        asked = bench.want(client, node, ticket)
        bench.pass_time(seconds(1.9))
        answer = bench.answer(asked)
        if answer is not None and not isinstance(answer, Queued):
            return answer
    raise AssertionError("nothing ever came")


def test_rule_14_a_value_of_which_one_record_is_hurt_comes_back_and_is_written_anew(bench):
    first = bench.held("c1", "n2", 1)
    bench.release("c1", 1, first, b"kept")
    bench.run()
    for key in [key for key in bench.disk[ROOT] if NAME.encode() in key]:
        bench.hurt.add((ROOT, key))
        restarted(bench)
        assert not bench.hurt
        assert asked_for_long(bench, "c2", "n3", len(key)).value == b"kept"


def test_rule_14_a_value_that_cannot_be_read_is_told_and_never_taken_for_none(bench):
    first = bench.held("c1", "n2", 1)
    bench.release("c1", 1, first, b"kept")
    bench.run()
    bench.hurt.update((ROOT, key) for key in bench.disk[ROOT] if NAME.encode() in key)
    restarted(bench)
    for client, node in (("c2", "n3"), ("c3", "n1")):
        told = asked_for_long(bench, client, node, 7)
        assert not isinstance(told, Granted), "it would go on with no value"
        assert told.error == "StoreDamaged"
        assert "snowmelt baton reset index" in told.text
    for name in ("other", NAME):  # a second restart changes nothing of it
        bench.start("n1")
        bench.view("n1", "n2", "n3", "n4")
        bench.pass_time(seconds(6))
        asked = bench.want("c4", "n4", 8, name)
        bench.pass_time(seconds(2))
        assert hasattr(bench.answer(asked), "fence") == (name == "other")


def test_rule_14_who_gives_such_a_value_up_begins_without_one(bench):
    first = bench.held("c1", "n2", 1)
    bench.release("c1", 1, first, b"kept")
    bench.run()
    bench.hurt.update((ROOT, key) for key in bench.disk[ROOT] if NAME.encode() in key)
    restarted(bench)
    assert asked_for_long(bench, "c2", "n3", 7).error == "StoreDamaged"
    assert bench.answer(bench.call("c2", "n3", ResetBaton(NAME))).node == "n1"
    assert bench.answer(bench.call("c2", "n1", ResetBaton(NAME))) == BatonReset()
    granted = asked_for_long(bench, "c2", "n3", 9)
    assert (granted.value, granted.fence > first.fence) == (b"", True)
    assert bench.answer(bench.call("c2", "n1", ResetBaton(NAME))).error == "StateError"


def test_rule_14_another_machine_of_a_node_does_without_such_a_value(bench):
    first = bench.held("c1", "n2", 1)
    bench.release("c1", 1, first, b"kept")
    bench.run()
    bench.hurt.update((ROOT, key) for key in bench.disk[ROOT] if NAME.encode() in key)
    restarted(bench)
    bench.give(NodeId("n3"), Announced(SeekBaton(NAME, 9)))
    bench.pass_time(seconds(12))
    assert [fact.value for _, fact in bench.facts if isinstance(fact, BatonGot)] == [b""]


def test_rule_14_a_write_that_failed_lets_nothing_older_over_what_is_confirmed(bench):
    first = bench.held("c1", "n2", 1)
    bench.save("c1", 1, first, b"older")
    (late,) = [word for word in bench.words if isinstance(word[2], Backup)]
    bench.words.clear()
    saved = bench.save("c1", 1, first, b"confirmed")
    bench.run()
    assert bench.answer(saved) == ValueSaved()
    bench.full.add(ROOT)
    failed = bench.save("c1", 1, first, b"too much")
    bench.run()
    assert bench.answer(failed).error == "MachineError"
    bench.full.clear()
    bench.words.append(late)
    bench.run()
    kept = [value for key, value in bench.disk[ROOT].items() if NAME.encode() in key]
    assert all(b"confirmed" in value for value in kept)


def test_rule_12_fences_grow_though_the_roots_disk_is_set_back_or_emptied(bench):
    before = {}
    older = dict(bench.disk.get(ROOT, {}))
    for number, disk in enumerate((None, older, {})):
        if disk is not None:
            bench.disk[ROOT] = dict(disk)
            bench.epoch = 0  # the numbers of views go back, too
            for node in ("n2", "n3", "n4"):
                bench.disk[NodeId(node)] = {}
            restarted(bench, *(() if disk else ("n1", "n2", "n3", "n4")))
        granted = asked_for_long(bench, "c1", "n2", number + 1)
        assert granted.fence > max(before.values(), default=0)
        before[number] = granted.fence
        assert granted.fence < 2**53


def test_rule_12_fences_grow_over_restarts_though_the_time_of_day_goes_back(bench):
    last = 0
    for number in range(3):
        granted = asked_for_long(bench, "c1", "n2", number + 1)
        assert granted.fence > last
        last = granted.fence
        bench.wall -= 3600 * SECOND
        restarted(bench)


def test_rule_12_no_count_runs_into_a_later_term(bench):
    """A baton that is handed on for ever reaches the fences of later terms, and the root knows."""
    first = bench.held("c1", "n2", 1)
    token = bench.baton("n2").relay.token
    second = bench.want("c2", "n3", 2)
    bench.run()
    far = ((first.fence >> COUNT_BITS) + 3) << COUNT_BITS
    token.fence = bench.baton("n2").relay.fence = far - 1
    bench.release("c1", 1, Granted(token.fence, 0, b"", LEASE, first.where))
    bench.run()
    reached = bench.answer(second).fence
    restarted(bench)
    assert asked_for_long(bench, "c3", "n4", 3).fence > reached


def test_rule_12_no_baton_is_made_before_its_term_is_on_the_disk(bench):
    bench.full.add(ROOT)
    bench.view("n1", "n2", "n3", "n4")
    asked = bench.want("c1", "n2", 1)
    bench.pass_time(seconds(1.9))
    assert bench.answer(asked) is None
    bench.full.clear()
    assert hasattr(asked_for_long(bench, "c1", "n2", 1), "fence")


# --- what a hold does -----------------------------------------------------------------------------


def test_rule_14_a_save_that_failed_changes_nothing(bench):
    first = bench.held("c1", "n2", 1)
    bench.full.add(ROOT)
    failed = bench.save("c1", 1, first, b"never kept")
    bench.run()
    assert bench.answer(failed).error == "MachineError"
    second = bench.want("c2", "n3", 2)
    bench.run()
    bench.release("c1", 1, first)
    bench.run()
    assert bench.answer(second).value == b""


def test_rule_14_a_save_is_carried_on_once_it_is_safe(bench):
    first = bench.held("c1", "n2", 1)
    second = bench.want("c2", "n3", 2)
    bench.run()
    bench.save("c1", 1, first, b"safe")
    bench.run()
    bench.release("c1", 1, first)
    bench.run()
    assert bench.answer(second).value == b"safe"


@pytest.mark.parametrize("left", [None, b"left"])
def test_rule_14_what_is_carried_on_counts_more_than_a_save_nobody_heard_of(bench, left):
    first = bench.held("c1", "n2", 1)
    second = bench.want("c2", "n3", 2)
    bench.run()
    bench.save("c1", 1, first, b"unknown")
    bench.run(but=(Stored,))
    late = list(bench.words)
    bench.words.clear()
    bench.release("c1", 1, first, left)
    bench.run()
    bench.words.extend(late)
    bench.run()
    assert bench.answer(second).value == (left or b"")
    restarted(bench)
    assert asked_for_long(bench, "c3", "n4", 3).value == (left or b"")


def test_rule_14_the_same_save_again_is_one_and_an_older_one_that_comes_late_is_void(bench):
    first = bench.held("c1", "n2", 1)

    def save(number, value):
        call = SaveValue(NAME, 1, first.fence, first.where, value, number)
        asked = bench.call("c1", "n2", call)
        bench.run()
        return bench.answer(asked)

    assert save(1, b"one") == ValueSaved()
    assert save(1, b"one") == ValueSaved()
    assert save(2, b"two") == ValueSaved()
    assert save(1, b"one").error == "OutcomeUnknown"
    assert bench.baton("n2").relay.token.value == b"two"
    assert bench.baton("n2").relay.token.given == 2


def test_rule_13_a_release_that_is_sent_again_much_later_is_told_the_same(bench):
    first = bench.held("c1", "n2", 1)
    released = bench.release("c1", 1, first)
    assert bench.answer(released) == Released()
    lost = bench.held("c2", "n2", 2)
    bench.pass_time(seconds(7))
    for ticket in range(3, 303):
        held = bench.held("c3", "n2", ticket)
        bench.release("c3", ticket, held)
    assert bench.answer(bench.release("c1", 1, first)) == Released()
    assert bench.answer(bench.release("c2", 2, lost)).error == "BatonLost"


def test_rule_13_who_gave_up_its_want_is_granted_nothing_by_what_it_asked_before(bench):
    first = bench.held("c2", "n2", 2)
    bench.call("c1", "n2", Release(NAME, 1, 0, None, None))
    assert bench.answer(bench.want("c1", "n2", 1)).error == "BatonLost"
    bench.release("c2", 2, first)
    bench.run()
    assert bench.states() == {"n2": "idle"}


def test_rule_14_no_value_is_given_up_while_a_newer_one_is_on_its_way_to_the_disk(bench):
    first = bench.held("c1", "n2", 1)
    bench.release("c1", 1, first, b"kept")
    bench.run()
    held = bench.held("c2", "n2", 2)
    bench.hurt.update((ROOT, key) for key in bench.disk[ROOT] if NAME.encode() in key)
    bench.start("n1")
    bench.view(*ALL)
    bench.slow.add(ROOT)
    saved = bench.save("c2", 2, held, b"saved")
    bench.run()
    reset = bench.call("c3", "n1", ResetBaton(NAME))
    bench.flush()
    bench.run()
    assert bench.answer(saved) == ValueSaved()
    assert bench.answer(reset).error == "StateError"
    restarted(bench)
    assert asked_for_long(bench, "c4", "n3", 4).value == b"saved"


def test_rule_14_no_baton_is_made_while_a_value_is_on_its_way_to_the_disk(bench):
    """Else whoever is told late that it is safe is told so of a value that nobody gets."""
    first = bench.held("c1", "n2", 1)
    bench.slow.add(ROOT)
    saved = bench.save("c1", 1, first, b"saved")
    bench.run()
    bench.cut_off("n2")
    bench.give(NodeId("n2"), Announced(bench.machine("n1")._here.view))
    for _ in range(8):
        asked = bench.want("c2", "n3", 2)
        bench.pass_time(seconds(1.9))
        if isinstance(bench.answer(asked), Granted):
            break
    bench.flush()
    bench.run()
    assert bench.answer(saved) == ValueSaved()
    if not isinstance(bench.answer(asked), Granted):
        asked = bench.want("c2", "n3", 2)
        bench.pass_time(seconds(3))
    assert bench.answer(asked).value == b"saved"
