"""Bugs planted in what gives several partitions one order: judges find each within a life."""

from functools import cache

import pytest
from msgspec.structs import replace
from test_parted_life import DATA_NODES, EARLIER, NAMES, lived

from snowmelt.client.fifo.granted import GrantedSteps
from snowmelt.protocols.queue.api.gathered import Gathered
from snowmelt.protocols.queue.leader.getting import Getting
from snowmelt.protocols.queue.leader.parted import partition
from snowmelt.protocols.queue.leader.parted.anchor import Anchor
from snowmelt.protocols.queue.leader.parted.counting import Counting
from snowmelt.protocols.queue.leader.parted.partition import Partition
from snowmelt.protocols.queue.leader.terms import Terms
from snowmelt.protocols.queue.messages.partition_words import PartedGetCancelled
from snowmelt.protocols.queue.messages.words import SpreadPut
from snowmelt.protocols.queue.router import parted_gets
from snowmelt_world.families.fifo_planted import ContentTerms
from snowmelt_world.life import Ending
from snowmelt_world.themes import ANY


def a_get_that_is_asked_again_is_given_more(patch):
    patch.setattr(Partition, "_holds", lambda *_: ())


def nothing_is_said_though_a_partition_is_silent(patch):
    patch.setattr(Anchor, "_is_away", lambda *_: True)
    patch.setattr(parted_gets, "Gathered", lambda pieces, *_: Gathered(pieces))


def nobody_says_that_something_is_ready(patch):
    patch.setattr(Partition, "_say_ready", lambda _: None)


def numbers_go_on_where_the_anchor_knows_of(patch):
    begin = Counting.__init__

    def unbounded(self, outbox, home, state, log):
        begin(self, outbox, home, state, log)
        self._next = self._told = max(state.tails)

    patch.setattr(Counting, "__init__", unbounded)


def what_comes_later_is_listed_too(patch):
    patch.setattr(Counting, "upto", property(lambda _: 1 << 47))


def what_lies_on_data_nodes_is_placed_without_its_numbers(patch):
    ranks = partition._ranks
    patch.setattr(partition, "_ranks", lambda put: () if type(put) is SpreadPut else ranks(put))


def a_leader_goes_on_from_what_it_has_whatever_others_have(patch):
    patch.setattr(Terms, "choose", ContentTerms.choose)


def partitions_are_taken_whichever_queue_they_are_of(patch):
    patch.setattr(GrantedSteps, "is_there", lambda *_: iter(()))


def a_leave_is_ignored(patch):
    patch.setattr(
        Anchor, "leave", lambda anchor, door, word: anchor._outbox.send(door, _left(word))
    )


def what_a_left_get_was_given_does_not_go_back(patch):
    patch.setattr(Getting, "gone", lambda *_: None)


def a_closed_connection_takes_what_another_door_has_told(patch):
    leave = Anchor.leave
    patch.setattr(Anchor, "leave", lambda *args: leave(*args[:2], replace(args[2], since=0)))


def _left(word):
    return PartedGetCancelled(word.queue, word.operation)


CALM, DISK = ((), "disk", ANY), (EARLIER, "disk", ANY)
LOST = (("lost-disk", "crash", "pause", "partition", "delay"), "disk", ANY)
FOUND_BY = {
    what_comes_later_is_listed_too: (DISK, 17),
    a_get_that_is_asked_again_is_given_more: (DISK, 1),
    nothing_is_said_though_a_partition_is_silent: (DISK, 1),
    nobody_says_that_something_is_ready: (CALM, 0),
    numbers_go_on_where_the_anchor_knows_of: (DISK, 0),
    what_lies_on_data_nodes_is_placed_without_its_numbers: (((), "disk", DATA_NODES), 0),
    partitions_are_taken_whichever_queue_they_are_of: (((), "disk", NAMES), 9003),
    a_leader_goes_on_from_what_it_has_whatever_others_have: (LOST, 83),
    a_leave_is_ignored: (CALM, 1),
    what_a_left_get_was_given_does_not_go_back: (CALM, 18),
    a_closed_connection_takes_what_another_door_has_told: (DISK, 1),
}


unplanted = cache(lived)
"""A life as the code is goes the same way each time."""


@pytest.mark.parametrize("plant", FOUND_BY, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant, monkeypatch):
    life, seed = FOUND_BY[plant]
    assert unplanted(seed, *life).ending is Ending.SETTLED
    plant(monkeypatch)
    report = lived(seed, *life)
    assert report.ending in (Ending.INVARIANT_BROKEN, Ending.NEVER_SETTLED), report
