"""What a partition and its anchor owe each other, one rule at a time (`queue/parted`)."""

import pytest
from leading import N2, N3, TERM, Leading
from msgspec.structs import replace

from snowmelt.core.batch import Batch
from snowmelt.core.interval import Interval
from snowmelt.core.keys import packed
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Requested
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.labels import Labels, pack
from snowmelt.protocols.queue.api.partition_names import home_of
from snowmelt.protocols.queue.api.phase_stamp import PhaseStamp
from snowmelt.protocols.queue.leader.parted.partition import Partition
from snowmelt.protocols.queue.leader.parted.phases import share_out
from snowmelt.protocols.queue.messages import words
from snowmelt.protocols.queue.messages.partition_words import (
    Grant,
    Holds,
    NextPhase,
    Numbers,
    PartedGet,
    PartialAnswer,
    PartitionReport,
    Ready,
    RequestNumbers,
)
from snowmelt.protocols.queue.messages.words import Say
from snowmelt.protocols.queue.replication.log import BOUND_AHEAD, Log
from snowmelt.protocols.queue.state.batches import StoredBatch

ANCHOR = 7
MOST = 1 << 40


def operation(number):
    return OperationId(NodeId("c-9"), number)


def turn(number, granted=0, anchor=ANCHOR, **more):
    known = {"count": 9, "size": MOST, "upto": 1 << 40, **more}
    return NextPhase("log/1", TERM, anchor, number, granted, **known)


@pytest.fixture
def part():
    """Partition 1; the anchor is on `n3`."""
    leading = Leading("log/1")
    leading.hear(N2, leading.home("log/0", N3, ANCHOR))
    leading.sent.clear()
    return leading


def placed(part, first, count=1, number=1):
    """Something is put, and has numbers."""
    part.put(number, count)
    (ask,) = part.told(RequestNumbers)
    part.hear(N3, Numbers("log/1", TERM, ANCHOR, ask.number, first))
    part.agree()
    part.sent.clear()


def grants(*runs, number=1):
    return (Grant(operation(number), N3, runs, (1,), PhaseStamp(ANCHOR, 1, 1 << 40)),)


# --- numbers --------------------------------------------------------------------------------------


def test_an_anchor_gives_numbers_when_it_is_sure_that_it_is_one():
    anchor = Leading("log/0")
    anchor.hear(N3, RequestNumbers("log/2", 4, 1, 3, 0))
    assert anchor.told(Numbers) == []
    anchor.agree()
    (numbers,) = anchor.told(Numbers)
    assert (numbers.anchor, numbers.term, numbers.number) == (TERM, 4, 1)


def test_the_same_question_has_the_same_numbers_and_the_next_has_later_ones():
    anchor = Leading("log/0")
    anchor.hear(N3, RequestNumbers("log/2", 4, 1, 3, 0))
    anchor.agree()
    (first,) = anchor.told(Numbers)
    anchor.hear(N3, RequestNumbers("log/2", 4, 1, 3, 0))
    assert anchor.told(Numbers) == [first]
    anchor.hear(N3, RequestNumbers("log/2", 4, 2, 1, 0))
    anchor.agree()
    (second,) = anchor.told(Numbers)
    assert second.first == first.first + 3
    anchor.hear(N3, RequestNumbers("log/2", 4, 1, 3, 0))
    anchor.agree()
    assert anchor.told(Numbers) == []


def test_numbers_above_the_bound_wait_until_it_is_flushed():
    anchor = Leading("log/0")
    anchor.hear(N3, RequestNumbers("log/2", 4, 1, 2 * BOUND_AHEAD, 0))
    anchor.flush()
    anchor.hear(N2, _confirmed(anchor))
    assert anchor.told(Numbers) == []
    anchor.agree()
    assert len(anchor.told(Numbers)) == 1


def _confirmed(anchor):
    """The follower hears of no later term, and has not got the step with the bound."""
    numbers = [word.number for _, word in anchor.sent if isinstance(word, words.Confirm)]
    return words.Confirmed("log/0", TERM, "n2/1", numbers[-1])


def test_no_number_is_below_what_a_partition_has():
    anchor = Leading("log/0")
    anchor.hear(N3, RequestNumbers("log/2", 4, 1, 3, 1 << 30))
    anchor.agree()
    anchor.agree()
    assert anchor.told(Numbers)[0].first == 1 << 30


def test_what_was_put_before_asks_for_no_numbers(part):
    placed(part, 100)
    part.put(1)
    part.agree()
    assert part.told(RequestNumbers) == []


def test_one_question_is_on_its_way_and_has_all_that_came_meanwhile(part):
    part.put(1)
    part.put(2, 4)
    part.put(3, 5)
    assert [ask.count for ask in part.told(RequestNumbers)] == [1]
    part.hear(N3, Numbers("log/1", TERM, ANCHOR, 1, 10))
    assert [(ask.count, ask.above) for ask in part.told(RequestNumbers)] == [(9, 11)]


def test_numbers_of_an_earlier_anchor_are_not_taken(part):
    part.put(1)
    part.hear(N3, turn(1, anchor=8))
    part.hear(N3, Numbers("log/1", TERM, ANCHOR, 1, 10))
    part.agree()
    assert part.told(PartitionReport)[0].runs == ()
    part.hear(N3, Numbers("log/1", TERM, 8, 1, 99))
    part.hear(N3, turn(2, anchor=8))
    part.agree()
    assert part.told(PartitionReport)[0].runs == (99, 100, 4)


def test_what_lies_on_data_nodes_has_numbers_too_and_goes_with_its_door():
    leading = Leading("log/1", replicas=2, inline_max=0)
    leading.hear(N2, leading.home("log/0", N3, ANCHOR))
    keys = {}
    for number in (1, 2):
        offered = words.Offered("p", number, 1, 4, 0, 0, 0, "", 0, 0, b"")
        leading.hear(N3, words.Offer("log/1", TERM, operation(number), offered))
        (goes,) = leading.told(words.Goes)
        keys[number] = StoredBatch(goes.place.start, goes.place.stop, 4, TERM).key
    for keeper in ("n1/1", "n2/1", "n3/1"):
        leading.hear(N3, words.BodyStored("log/1", TERM, "n1", keeper, keys[1]))
    leading.agree()
    assert [ask.count for ask in leading.told(RequestNumbers)] == [1]
    leading.hear(N3, words.Spare("log/1", TERM, "n3/1", (keys[1],)))
    leading.agree()
    assert leading.told(words.Spared) == []
    leading.hear(N3, Numbers("log/1", TERM, ANCHOR, 1, 70))
    leading.agree()
    (told,) = leading.told(words.PutReply)
    assert told.answer.where == Interval(70, 71)


# --- reports --------------------------------------------------------------------------------------


def test_a_report_has_what_was_numbered_before_and_waits_until_that_is_safe(part):
    part.put(1, 2)
    part.hear(N3, turn(1, numbers=Numbers("log/1", TERM, ANCHOR, 1, 10)))
    assert part.told(PartitionReport) == []
    part.flush()
    assert part.told(PartitionReport) == []
    part.agree()
    assert [report.runs for report in part.told(PartitionReport)] == [(10, 12, 4)]


def test_a_report_waits_until_it_is_sure_who_leads(part):
    part.hear(N3, turn(1))
    assert part.told(PartitionReport) == []
    part.agree()
    assert len(part.told(PartitionReport)) == 1


def test_a_report_lists_nothing_from_after_the_phase_began(part):
    placed(part, 10, 5)
    part.hear(N3, turn(1, upto=12))
    part.agree()
    (report,) = part.told(PartitionReport)
    assert (report.runs, report.more) == ((10, 12, 4), False)


# --- grants ---------------------------------------------------------------------------------------


def test_what_is_granted_is_leased_once_and_delivered_to_the_door(part):
    placed(part, 10, 5)
    part.hear(N3, turn(2, 2, grants=grants(10, 12)))
    part.hear(N3, turn(2, 2, grants=grants(10, 12)))
    part.agree()
    (given,) = part.told(PartialAnswer)
    assert [(one.start, one.count) for one in given.leased.parts] == [(10, 2)]
    part.hear(N3, turn(3, 2, grants=grants(10, 12)))
    part.agree()
    assert part.told(PartialAnswer) == []
    assert part.told(PartitionReport)[-1].runs == (12, 15, 4)


def test_a_turn_of_an_earlier_phase_or_anchor_or_for_another_term_is_not_heard(part):
    placed(part, 10, 5)
    part.hear(N3, turn(4, anchor=8))
    part.agree()
    part.sent.clear()
    part.hear(N3, turn(9, 9, grants=grants(10, 12)))
    part.hear(N3, turn(3, 3, anchor=8, grants=grants(10, 12)))
    part.hear(N3, replace(turn(5, 5, anchor=8, grants=grants(10, 12)), term=TERM - 1))
    part.agree()
    assert part.told(PartialAnswer) == [] == part.told(PartitionReport)


def test_what_a_get_has_is_told_when_it_is_asked_for_and_delivered_again(part):
    placed(part, 10, 5)
    part.hear(N3, turn(2, 2, grants=grants(10, 12)))
    part.agree()
    (first,) = part.told(PartialAnswer)
    part.hear(N3, turn(1, anchor=8, asked=(operation(4), operation(1))))
    part.agree()
    (report,) = [one for one in part.told(PartitionReport) if one.anchor == 8]
    assert [(one.at, one.count, one.rank) for one in report.holds] == [(1, 2, (0, 11))]
    assert report.holds[0].seen == PhaseStamp(ANCHOR, 1, 1 << 40)
    seen = PhaseStamp(8, 1, 1 << 40, (0,))
    part.hear(N3, turn(2, 2, anchor=8, grants=(replace(*grants(), seen=seen),)))
    part.agree()
    (again,) = part.told(PartialAnswer)
    assert again.leased.token == first.leased.token
    assert again.away == (0,)
    part.hear(N3, turn(3, 2, anchor=8, asked=(operation(1),)))
    part.agree()
    assert [one.seen for one in part.told(PartitionReport)[-1].holds] == [seen], (
        "0 may give it no more"
    )


def test_a_partition_says_once_that_something_is_ready(part):
    part.hear(N3, turn(1))
    part.agree()
    part.sent.clear()
    part.put(1)
    part.hear(N3, Numbers("log/1", TERM, ANCHOR, 1, 10))
    part.agree()
    assert len(part.told(Ready)) == 1
    part.put(2)
    part.hear(N3, Numbers("log/1", TERM, ANCHOR, 2, 20))
    part.agree()
    assert part.told(Ready) == []


# --- by key ---------------------------------------------------------------------------------------


def keyed(part, number, *keys, queue="log/1"):
    """Items of these keys are put; they have numbers at once."""
    batch = Batch.of([b"item"] * len(keys))
    labels = pack(Labels(keys=keys))
    put = calls.Put(queue, "p", number, bytes(batch.offsets), bytes(batch.blob), labels)
    part.give(Requested(OperationId(NodeId("c-1"), 100 + number), put))
    for ask in part.told(RequestNumbers):
        part.hear(N3, Numbers("log/1", TERM, ANCHOR, ask.number, 10 * number))
        part.agree()


def living_in(part, count=1):
    found = [b"%d" % at for at in range(99) if home_of(b"%d" % at, 3) == part]
    return found[:count]


def test_a_partition_lists_what_may_be_given_by_keys_and_says_when_there_is_more():
    part = Leading("log/1", in_order_by_key=1)
    part.hear(N2, part.home("log/0", N3, ANCHOR))
    a, b = living_in(1, 2)
    keyed(part, 1, a, a, b, b)
    part.sent.clear()
    part.hear(N3, turn(1))
    part.agree()
    assert part.told(PartitionReport)[-1].runs == (10, 11, 8, 12, 13, 8)
    part.hear(N3, turn(2, 2, grants=grants(10, 11, 12, 13)))
    part.agree()
    (given,) = part.told(PartialAnswer)
    assert part.told(PartitionReport)[-1].runs == ()
    part.hear(N3, turn(3, 3, grants=grants(11, 12, number=2)))
    part.agree()
    (vain,) = part.told(PartialAnswer)
    assert (vain.leased.token, vain.leased.parts) == (0, ())
    assert part.told(Ready) == [], "all that waits waits for its key"
    leased = given.leased
    done = calls.Settle("log/1", leased.token, (Interval(10, 11),), secret=leased.secret)
    part.give(Requested(OperationId(NodeId("c-1"), 900), done))
    part.agree()
    assert len(part.told(Ready)) == 1
    part.hear(N3, turn(4))
    part.agree()
    assert part.told(PartitionReport)[-1].runs == (11, 12, 8)


def test_what_lives_in_another_partition_is_refused():
    part = Leading("log/1", at_once_by_key=1)
    part.hear(N2, part.home("log/0", N3, ANCHOR))
    keyed(part, 1, living_in(1)[0], living_in(2)[0])
    part.hear(N3, turn(1))
    part.agree()
    assert part.told(PartitionReport)[-1].runs == ()


# --- a phase --------------------------------------------------------------------------------------


def want(number, items, before=-1, size=MOST):
    return PartedGet("log/0", operation(number), items, size, 0, before=before)


def report(*runs, more=False, keys=(), holds=(), live=()):
    return PartitionReport(
        "log/1", 1, 1, 1, runs, packed(keys) if keys else b"", more, tuple(holds), tuple(live)
    )


def shared_out(wants, asked, reports):
    return share_out(wants, {one.operation: one for one in wants}, asked, reports, MOST)


def given(shared):
    return {one.number: pieces for one, pieces in shared.given.items()}


def test_the_least_goes_to_the_first():
    reports = {0: report(1, 3, 4, 7, 8, 4), 1: report(3, 5, 4)}
    shared = shared_out([want(1, 3), want(2, 9), want(3, 1)], (), reports)
    assert given(shared) == {1: {0: [1, 3], 1: [3, 4]}, 2: {1: [4, 5], 0: [7, 8]}}
    assert (shared.short, shared.ended) == (True, True)


def test_behind_what_was_not_listed_nothing_is_certain():
    reports = {0: report(1, 3, 4, more=True), 1: report(2 + 1, 9, 4)}
    shared = shared_out([want(1, 9), want(2, 9)], (), reports)
    assert given(shared) == {1: {0: [1, 3]}}
    assert (shared.short, shared.ended) == (True, False)


def test_a_get_has_so_many_bytes_and_one_item_in_any_case():
    reports = {0: report(1, 9, 10)}
    shared = shared_out([want(1, 9, size=25), want(2, 9, size=1)], (), reports)
    assert given(shared) == {1: {0: [1, 3]}, 2: {0: [3, 4]}}


def test_what_comes_before_an_item_that_lives():
    reports = {0: report(1, 9, 10), 1: report(live=((5, 0),))}
    shared = shared_out([want(1, 9, before=5), want(2, 1, before=77)], (), reports)
    assert given(shared) == {1: {0: [1, 5]}}
    assert shared.nothing == [operation(2)]


def test_by_keys_the_least_key_comes_first():
    reports = {0: report(5, 6, 1, 3, 4, 1, keys=(-2, 7)), 1: report(4, 5, 1, keys=(-2,))}
    shared = shared_out([want(1, 2), want(2, 2)], (), reports)
    assert given(shared) == {1: {1: [4, 5], 0: [5, 6]}, 2: {0: [3, 4]}}


def test_who_holds_some_is_given_what_was_given_and_did_not_arrive():
    holds = Holds(0, 1, (0, 8), PhaseStamp(1, 1, 9))
    reports = {0: report(holds=[holds]), 1: report(2, 4, 4, 9, 12, 4)}
    shared = shared_out([want(1, 9), want(2, 1)], (operation(1),), reports)
    assert given(shared) == {1: {0: [], 1: [2, 4]}, 2: {1: [9, 10]}}
    over = shared_out([want(1, 9)], (operation(1),), {0: report(1, 2, 4, holds=[Holds(0, 0)])})
    assert over.over == [operation(1)]


def test_what_was_leased_where_a_later_answer_was_given_without_it_is_in_vain():
    first, later = PhaseStamp(1, 1, 9), PhaseStamp(1, 4, 20, (2,))
    reports = {
        0: report(2, 4, 4, holds=[Holds(0, 2, (0, 15), later)]),
        1: report(holds=[Holds(0, 1, (0, 7), first)]),
        2: report(5, 6, 4, holds=[Holds(0, 9, (0, 30), first)]),
    }
    shared = shared_out([want(1, 9)], (operation(1),), reports)
    assert given(shared) == {1: {0: [], 1: []}}, "2 was left out, and may give no more"
    assert shared.again == {operation(1): later}


# --- bugs that these find -------------------------------------------------------------------------


def numbers_are_told_unconfirmed(patch):
    patch.setattr(Log, "confirm", lambda log, owed, step: log._confirms.append((step, 0, owed)))


def reports_are_told_at_once(patch):
    owe = Log.owe

    def hasty(self, owed):
        if type(owed) is Say:
            self._confirms.append((0, 0, owed))
        else:
            owe(self, owed)

    patch.setattr(Log, "owe", hasty)


def reports_are_made_before_numbers_are_placed(patch):
    heard = Partition.turn

    def early(self, source, word):
        heard(self, source, replace(word, numbers=None))

    patch.setattr(Partition, "turn", early)


def earlier_anchors_are_heard(patch):
    patch.setattr(Partition, "_is_old", lambda *_: False)


def the_bound_is_not_waited_for(patch):
    confirm = Log.confirm
    patch.setattr(Log, "confirm", lambda log, owed, _: confirm(log, owed, 0))


def grants_are_handled_each_time(patch):
    heard = Partition.turn

    def again(self, source, word):
        self._granted = 0, 0
        heard(self, source, word)

    patch.setattr(Partition, "turn", again)


FOUND_BY = {
    numbers_are_told_unconfirmed: (
        "log/0",
        test_an_anchor_gives_numbers_when_it_is_sure_that_it_is_one,
    ),
    reports_are_told_at_once: ("log/1", test_a_report_waits_until_it_is_sure_who_leads),
    reports_are_made_before_numbers_are_placed: (
        "log/1",
        test_a_report_has_what_was_numbered_before_and_waits_until_that_is_safe,
    ),
    earlier_anchors_are_heard: ("log/1", test_numbers_of_an_earlier_anchor_are_not_taken),
    the_bound_is_not_waited_for: (
        "log/0",
        test_numbers_above_the_bound_wait_until_it_is_flushed,
    ),
    grants_are_handled_each_time: (
        "log/1",
        test_what_is_granted_is_leased_once_and_delivered_to_the_door,
    ),
}


@pytest.mark.parametrize("plant", FOUND_BY, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant, monkeypatch, part):
    queue, scene = FOUND_BY[plant]
    plant(monkeypatch)
    with pytest.raises((AssertionError, ValueError)):
        scene(part) if queue == "log/1" else scene()
