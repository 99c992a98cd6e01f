"""What each planted bug does to a node, told by a node that repeats what it hears."""

import pytest

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Instant
from snowmelt.core.node import Expired, Persist, Persisted, PersistFailed, Started
from snowmelt.core.record import Write
from snowmelt.protocols.membership.member import MemberTimer
from snowmelt_world.cli.sim import _bug
from snowmelt_world.families import family, fifo_moves
from snowmelt_world.faults import KINDS
from snowmelt_world.life import Ending, live
from snowmelt_world.planted import QUEUE_BUGS, Bug, bugs_of, planted
from snowmelt_world.scenario import drawn
from wide import wide

TICK = Expired(MemberTimer.SPEAK)


class Parrot:
    """Writes down what it hears and when, and asks its disk for what a test wants."""

    def __init__(self, *changes):
        self.heard, self.changes, self.ticket = [], changes, 0

    def handle(self, event, now):
        self.heard.append((event, now))
        self.ticket += 1
        return [Persist(self.ticket, self.changes)] if self.changes else []

    def check(self):
        pass


def writes(count):
    return tuple(Write(b"%d" % number, b"v") for number in range(count))


def test_a_failed_disk_is_taken_for_a_full_one():
    parrot = Parrot()
    bug = planted(Bug.IGNORED_FAILURE, parrot)
    for event in (PersistFailed(1, "the disk failed", fatal=True), Persisted(2), Started()):
        bug.handle(event, Instant(0))
    heard = [event for event, _ in parrot.heard]
    assert heard == [PersistFailed(1, "the disk failed"), Persisted(2), Started()]


def test_of_each_tenth_step_with_several_changes_the_last_is_forgotten():
    bug = planted(Bug.FORGOTTEN_WRITE, Parrot(*writes(3)))
    steps = [bug.handle(TICK, Instant(0))[0] for _ in range(20)]
    kept = [len(step.changes) for step in steps]
    assert kept == ([3] * 9 + [2]) * 2
    assert [step.ticket for step in steps] == list(range(1, 21))


def test_a_step_with_one_change_is_never_forgotten():
    bug = planted(Bug.FORGOTTEN_WRITE, Parrot(*writes(1)))
    assert all(len(bug.handle(TICK, Instant(0))[0].changes) == 1 for _ in range(30))


def test_a_late_clock_shows_when_the_event_before_came():
    parrot = Parrot()
    bug = planted(Bug.LATE_CLOCK, parrot)
    for now in (5, 7, 90):
        bug.handle(TICK, Instant(now))
    assert [now for _, now in parrot.heard] == [5, 5, 7]


# --- found by lives, each by the first that does --------------------------------------------------

FOUND_BY = {
    Bug.REPLY_BEFORE_PERSISTED: 14,
    Bug.FORGOTTEN_TIMER: 1,
    Bug.IGNORED_FAILURE: 67,
    Bug.LATE_CLOCK: 67,
    Bug.COUNTED_EARLY: 35,
    Bug.TOLD_UNFLUSHED: 24,
    Bug.SKIPPED_STEP: 36,
    Bug.STALE_COPY: 7,
    Bug.UNFENCED: 5,
    Bug.LATE_LEASE: 94,
    Bug.CUT_ENDURED: 121,
    Bug.FORGOTTEN_ANSWER: 13,
    Bug.MERGED_NUMBERS: 6,
    Bug.FORGOTTEN_GRAVE: 33,
    Bug.LEFT_COPY: 10,
    Bug.KEPT_COPY: 0,
    Bug.EARLY_ERASING: 7,
}


LONG = {Bug.IGNORED_FAILURE, Bug.LATE_CLOCK}
"""Their lives take many seconds."""


@pytest.mark.parametrize(
    ("bug", "seed"),
    [
        *[one for one in FOUND_BY.items() if one[0] not in LONG],
        *wide(*[(bug, FOUND_BY[bug]) for bug in FOUND_BY if bug in LONG]),
    ],
    ids=lambda one: getattr(one, "value", ""),
)
def test_a_life_of_queues_finds_it(bug, seed):
    found = Ending.INVARIANT_BROKEN, Ending.NEVER_SETTLED
    lives = (live(drawn("queue", one, KINDS, bug), family("queue")) for one in (seed, *range(40)))
    assert any(report.ending in found for report in lives)


def test_lives_with_drains_find_who_says_too_early_that_it_is_empty(monkeypatch):
    monkeypatch.setattr(fifo_moves, "DRAINS_SHARE", 1.0)
    found = Ending.INVARIANT_BROKEN, Ending.NEVER_SETTLED
    lives = [
        (drawn("queue", one, KINDS, bug)) for one in (29, 60) for bug in (Bug.EARLY_EMPTY, None)
    ]
    endings = [live(one, family("queue")).ending for one in lives]
    assert any(one in found for one in endings[::2])
    assert endings[1::2] == [Ending.SETTLED] * 2


def test_a_life_of_members_finds_that_a_hint_is_believed():
    report = live(drawn("membership", 31, KINDS, Bug.HINT_BELIEVED), family("membership"))
    assert report.ending is Ending.INVARIANT_BROKEN
    assert live(drawn("membership", 31, KINDS), family("membership")).ending is Ending.SETTLED


def test_only_its_own_family_has_the_bugs_of_a_machine():
    assert set(bugs_of("queue")) == set(Bug)
    assert set(Bug) - set(bugs_of("baton")) == set(QUEUE_BUGS)
    with pytest.raises(BadOption, match="--plant is 'late-lease'"):
        _bug("late-lease", "baton")
