"""The batons' lives: calm ones, old wounds, and planted bugs that each rule must find."""

from collections import Counter
from typing import ClassVar

import pytest

from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.node import Persist, Send
from snowmelt.protocols.baton.baton import LocalBaton
from snowmelt.protocols.baton.messages import Stored
from snowmelt.protocols.baton.node import BatonNode
from snowmelt.protocols.baton.registrar import Registrar
from snowmelt.protocols.baton.relay import Relay
from snowmelt.protocols.baton.settings import BatonSettings
from snowmelt.protocols.baton.token_census import TokenCensus
from snowmelt.protocols.host import Host
from snowmelt.protocols.membership import Current, CutOff
from snowmelt_world.families import family
from snowmelt_world.families.baton import BatonLife
from snowmelt_world.faults import HARDER, KINDS
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import drawn, kinds_of
from snowmelt_world.themes import ANY

# Each of these lives showed what is named, before it was mended.
SEEDS = (
    114,  # a process that had slept granted, from its inbox, before it heard that it was cut off
    1062,  # a node's fast clock took the baton while its holder still believed to have it
    1270,  # a process that had slept took a token that had been made anew meanwhile
    1392,  # as 114, with a token that rested where the process slept
    5004,  # beats in step with the root's questions sent what the next question let fall, for ever
)


EASY = tuple(kind for kind in KINDS if kind not in HARDER)


def lived(seed, kinds=EASY, life=None, theme=ANY):
    return live(drawn("baton", seed, kinds, theme=theme), life or family("baton"))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_once_went_wrong_goes_well(seed):
    report = lived(seed)
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")


# The same with all kinds of faults, and the theme that is drawn.
HARDER_SEEDS = (
    1,  # a value was saved, and the one before put back: the next holder got what had been saved
    16,  # the same, between three who hold for milliseconds
    72,  # a save was refused for want of room, and the token had changed all the same
)

# Judged wrongly before: nothing that is promised was broken.
MISJUDGED_SEEDS = (
    141,  # who was not heard asked in vain to renew, and believed on what it had been told before
    213,  # a want had been withdrawn, and was taken for one that waits until that was answered
    934,  # a node was cut off with a baton that nobody wanted any more
    2183,  # numbers given out after a loss, below a limit that was lost with an older disk's news
)


@pytest.mark.parametrize("seed", MISJUDGED_SEEDS)
def test_what_was_blamed_without_cause_is_let_pass(seed):
    report = live(drawn("baton", seed, kinds_of("baton")), family("baton"))
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")


# The same without faults, where a node leaves in order and is away for some seconds.
MISJUDGED_CALM_SEEDS = (
    620,  # who asked the node that was away asked another 7.5 s later: 72 others had come before
    2909,  # as 620, with 109 others
)


@pytest.mark.parametrize("seed", MISJUDGED_CALM_SEEDS)
def test_who_asked_a_node_that_was_away_came_when_another_heard_it(seed):
    report = lived(seed, (), theme=None)
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")


@pytest.mark.parametrize("seed", HARDER_SEEDS)
def test_what_went_wrong_for_shipped_programs_goes_well(seed):
    report = lived(seed, KINDS, theme=None)
    assert (report.ending, report.sentence) == (Ending.SETTLED, "")


class CountedLife(BatonLife):
    """One that adds up what happened in it."""

    seen: ClassVar[Counter[str]] = Counter()

    def judge(self, world):
        super().judge(world)
        for ledger in self._ledgers.values():
            self.seen["grants"] += len(ledger.holds)
            self.seen["passed"] += sum(hold.passed for hold in ledger.holds.values())
            self.seen["saved"] += sum(hold.saved > 0 for hold in ledger.holds.values())
            self.seen["accepted"] += ledger.accepted
            self.seen["rejected"] += ledger.rejected
            self.seen["ordered"] += ledger.ordered_from is not None


def test_without_faults_batons_go_round_in_order_and_are_never_made_anew():
    CountedLife.seen = Counter()
    sentences = [lived(seed, (), CountedLife).sentence for seed in range(8)]
    assert not any(sentences)
    seen = CountedLife.seen
    assert seen["grants"] > 250
    assert seen["passed"] > 0.8 * seen["grants"]
    assert min(seen["saved"], seen["rejected"], seen["accepted"] // 30) > 10
    assert seen["ordered"] > 2


# --- planted bugs: one for each rule --------------------------------------------------------------


def a_step_keeps_its_fence(_):
    def step(self, place):
        self.token.place = place
        return [] if place.node == self._here.me else self._send(self.token)

    return step


def a_new_token_forgets_what_the_root_knows(_):
    return lambda self, _: max(told.fence for told in self._answers.values()) + 1


def a_new_token_forgets_what_was_told(_):
    return lambda _, floor: floor + 1


def a_lease_is_half_as_long_as_told(real):
    def renew(self, holder, operation, now):
        real(self, holder, operation, now)
        self._until(holder, later(now, Duration(self._here.settings.lease // 2)))

    return renew


def a_new_token_does_not_wait(real):
    def make(self, name, inquest, now):
        inquest.lost = Instant(now - self._here.settings.patience)
        return real(self, name, inquest, now)

    return make


def who_is_cut_off_goes_on(real):
    def announced(self, fact, now):
        return [] if isinstance(fact, CutOff | Current) else real(self, fact, now)

    return announced


def who_slept_goes_on(real):
    def announced(self, fact, now):
        return [] if isinstance(fact, Current) else real(self, fact, now)

    return announced


def nobody_hears_that_he_slept(real):
    def handle(self, event, now):
        self._current = None
        return real(self, event, now)

    return handle


def clocks_are_trusted(_):
    return property(lambda self: self.lease)


def who_calls_again_stands_at_the_end(real):
    def acquire(self, operation, call, now):
        self.give_up(call.ticket, now)
        return real(self, operation, call, now)

    return acquire


def saved_before_it_is_safe(real):
    def backup(self, source, word):
        effects = real(self, source, word)
        if word.number and any(isinstance(effect, Persist) for effect in effects):
            return [*effects, Send(source, Stored(word.name, word.number))]
        return effects

    return backup


def nothing_comes_of_it(_):
    return lambda *_, **__: []


NOTHING, ALL = (), EASY
CUTS, CRASHES, SKEW, PAUSES = ("partition",), ("crash",), ("clock-skew",), ("pause",)
BUGS = {
    "same fence": (Relay, "_step", a_step_keeps_its_fence, ALL, "were both granted"),
    "no floor": (TokenCensus, "next_fence", a_new_token_forgets_what_the_root_knows, ALL, ""),
    "only the floor": (
        TokenCensus,
        "next_fence",
        a_new_token_forgets_what_was_told,
        ALL,
        "had acted",
    ),
    "half a lease": (
        LocalBaton,
        "_renew",
        a_lease_is_half_as_long_as_told,
        NOTHING,
        "believes that",
    ),
    "lease": (Registrar, "_make", a_new_token_does_not_wait, CRASHES, "believes that"),
    "cut off": (BatonNode, "_announced", who_is_cut_off_goes_on, CUTS, ""),
    "slept": (BatonNode, "_announced", who_slept_goes_on, PAUSES, "had acted"),
    "drift": (BatonSettings, "patience", clocks_are_trusted, SKEW, "believes that"),
    "value": (Relay, "change", nothing_comes_of_it, NOTHING, "had left it with one of"),
    "saved": (Registrar, "backup", saved_before_it_is_safe, ALL, "which was saved"),
    "complaints": (Registrar, "complained", nothing_comes_of_it, ALL, "has not had its turn"),
    "order": (
        LocalBaton,
        "acquire",
        who_calls_again_stands_at_the_end,
        NOTHING,
        "which had wanted it",
    ),
}
AS_WELL = {"slept": (Host, "handle", nobody_hears_that_he_slept)}
"""What guards against the same, and must be gone before the bug can show."""
FIRST = {
    "no floor": 6,
    "only the floor": 60,
    "lease": 39,
    "cut off": 58,
    "slept": 123,
    "drift": 132,
    "saved": 246,
}
"""Where rare bugs are sought from, so that the search is short."""
LIVES = 40


@pytest.mark.parametrize("rule", BUGS)
def test_a_bug_is_found(rule, monkeypatch):
    where, name, spoil, kinds, words = BUGS[rule]
    monkeypatch.setattr(where, name, spoil(getattr(where, name)))
    if rule in AS_WELL:
        where, name, spoil = AS_WELL[rule]
        monkeypatch.setattr(where, name, spoil(getattr(where, name)))
    first = FIRST.get(rule, 0)
    reports = (lived(seed, kinds) for seed in range(first, first + LIVES))
    found = next((each for each in reports if each.ending is not Ending.SETTLED), None)
    assert found is not None
    assert words in found.sentence
