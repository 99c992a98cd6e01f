"""Bugs that a person could have written where etcd decides, each found by lives over it."""

import msgspec
import pytest
import test_etcd_lives as lives

from snowmelt.core.instant import START
from snowmelt.core.node import Send
from snowmelt.protocols.baton import fences
from snowmelt.protocols.baton.fences import Fences
from snowmelt.protocols.baton.messages import Stored
from snowmelt.protocols.baton.token_census import TokenCensuses
from snowmelt.protocols.baton.values import Values
from snowmelt.protocols.membership.coordinator import EtcdCoordinator
from snowmelt.protocols.membership.election import Election
from snowmelt.protocols.membership.leader_role import LeaderRole
from snowmelt.protocols.membership.lease import MembershipLease
from snowmelt.protocols.membership.member import MemberRole
from snowmelt.protocols.membership.monitor import MemberMonitor
from snowmelt.protocols.membership.records import Records
from snowmelt.protocols.membership.view import Ledger
from snowmelt.protocols.queue.controller.homes import Homes
from snowmelt_world.families import family
from snowmelt_world.life import Ending, live
from snowmelt_world.scenario import ETCD_DECIDES, drawn, kinds_of
from snowmelt_world.world import Broken


def a_change_compares_nothing(patch):
    ask = Records._ask

    def asked(self, flight):
        if flight.changes:
            bare = msgspec.structs.replace(flight.asked, when=())
            flight = msgspec.structs.replace(flight, asked=bare)
        return ask(self, flight)

    patch.setattr(Records, "_ask", asked)


def a_decision_is_told_before_it_is_kept(patch):
    write = EtcdCoordinator._write

    def written(self):
        effects = write(self)
        if self._writing is not None:
            self._decided = self._writing[1]
        return effects

    patch.setattr(EtcdCoordinator, "_write", written)


def another_leader_does_not_raise_the_views_number(patch):
    led = Ledger.led

    def unraised(self, member, run):
        after = led(self, member, run)
        view = msgspec.structs.replace(after.view, epoch=self.view.epoch)
        return msgspec.structs.replace(after, view=view)

    patch.setattr(Ledger, "led", unraised)


def a_new_leader_blames_members_for_its_predecessors_silence(patch):
    begin = MemberMonitor.begin

    def blaming(self, now, *more):
        effects = begin(self, now, *more)
        self._heard = dict.fromkeys(self._heard, START)
        return effects

    patch.setattr(MemberMonitor, "begin", blaming)


def a_leaders_own_word_counts_as_long_as_anybodys(patch):
    patch.setattr(MembershipLease, "decides", lambda *_: None)
    patch.setattr(MembershipLease, "counts", lambda self, number, _, **__: number in self._sent)


def a_predecessor_is_taken_for_unsure_when_its_lease_ends(patch):
    """Rule 26 without the time that an early end of the lease takes from it."""
    patch.setattr(Election, "others_sure_until", property(lambda self: self.since))


def a_predecessor_is_left_out_at_once(patch):
    doubt = LeaderRole._doubt

    def hasty(self):
        found = doubt.fget(self)
        return found and (found[0], msgspec.structs.replace(found[1], end=self._election.since))

    patch.setattr(LeaderRole, "_doubt", property(hasty))


def a_change_without_an_answer_is_never_asked_again(patch):
    patch.setattr(Records, "tick", lambda *_: [])


def who_leads_is_not_spoken_to(patch):
    patch.setattr(MemberRole, "direct", lambda *_: [])


def a_home_is_told_before_it_is_kept(patch):
    keep = Homes.keep

    def told_at_once(self, home, also):
        keep(self, home, also)
        if not self.on_disk:
            self._is_kept(*self._asked.pop(self._tickets))

    patch.setattr(Homes, "keep", told_at_once)


def terms_by_count_alone(patch):
    """The time of day hides most faults of terms; here they are seen."""
    patch.setattr(fences, "BEGINNING", 1 << 62)


def a_root_makes_batons_in_the_term_that_it_found(patch):
    terms_by_count_alone(patch)
    patch.setattr(Fences, "entered", lambda self, _: self._raise(max(1, self._wanted)))


def a_root_counts_terms_by_itself(patch):
    terms_by_count_alone(patch)
    lead = Fences.lead
    patch.setattr(Fences, "lead", lambda self, _, now: lead(self, None, now))


def a_value_is_said_to_be_saved_before_it_is_kept(patch):
    backup = Values.backup

    def told(self, source, word):
        at_once = [Send(source, Stored(word.name, word.number))] if word.number else []
        return [*backup(self, source, word), *at_once]

    patch.setattr(Values, "backup", told)


def a_root_does_not_read_what_values_there_are(patch):
    lead = Values.lead
    patch.setattr(Values, "lead", lambda self, _: lead(self, {}))


def a_root_asks_nobody_but_itself(patch):
    ask = TokenCensuses.ask

    def alone(self, name, now):
        asked = ask(self, name, now)
        if asked:
            self.of(name)._asked = (self._here.me,)
        return [one for one in asked if one.target == self._here.me]

    patch.setattr(TokenCensuses, "ask", alone)


def lived(protocol, seed):
    """The life of a seed, which must end badly."""

    def life():
        scenario = drawn(protocol, seed, kinds_of(protocol), coordinator=ETCD_DECIDES)
        report = live(scenario, family(protocol))
        assert report.ending is Ending.SETTLED, report.sentence

    return life


PLANTED = [
    (a_change_compares_nothing, lives.test_what_a_leader_of_before_asked_comes_late),
    (a_decision_is_told_before_it_is_kept, lived("membership", 0)),
    (another_leader_does_not_raise_the_views_number, lived("membership", 1)),
    (a_new_leader_blames_members_for_its_predecessors_silence, lived("membership", 103)),
    (a_leaders_own_word_counts_as_long_as_anybodys, lived("membership", 28)),
    (a_predecessor_is_taken_for_unsure_when_its_lease_ends, lived("membership", 4)),
    (a_predecessor_is_left_out_at_once, lived("membership", 11)),
    (a_change_without_an_answer_is_never_asked_again, lived("membership", 63)),
    (who_leads_is_not_spoken_to, lived("membership", 6)),
    (a_home_is_told_before_it_is_kept, lived("queue", 31)),
    (a_root_makes_batons_in_the_term_that_it_found, lived("baton", 7)),
    (a_root_counts_terms_by_itself, lived("baton", 41)),
    (a_value_is_said_to_be_saved_before_it_is_kept, lived("baton", 9)),
    (a_root_does_not_read_what_values_there_are, lived("baton", 16)),
    (a_root_asks_nobody_but_itself, lived("baton", 3)),
]


@pytest.mark.parametrize(("plant", "judge"), PLANTED, ids=lambda one: one.__name__)
def test_it_is_found(plant, judge, monkeypatch):
    plant(monkeypatch)
    with pytest.raises((AssertionError, Broken)):
        judge()
