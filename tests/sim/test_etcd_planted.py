"""Bugs that a person could have written where etcd decides, each found by lives over it."""

import msgspec
import pytest
import test_etcd_lives as lives

from snowmelt.core.instant import START
from snowmelt.protocols.fifo.homes import Homes
from snowmelt.protocols.membership.coordinator import EtcdCoordinator
from snowmelt.protocols.membership.keeper import Keeper
from snowmelt.protocols.membership.member import Follower
from snowmelt.protocols.membership.records import Records
from snowmelt.protocols.membership.view import Ledger
from snowmelt.sim.families import family
from snowmelt.sim.life import Ending, live
from snowmelt.sim.scenario import ETCD_DECIDES, drawn, kinds_of
from snowmelt.sim.world import Broken


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
    begin = Keeper.begin

    def blaming(self, now):
        effects = begin(self, now)
        self._heard = dict.fromkeys(self._heard, START)
        return effects

    patch.setattr(Keeper, "begin", blaming)


def a_change_without_an_answer_is_never_asked_again(patch):
    patch.setattr(Records, "tick", lambda *_: [])


def who_leads_is_not_spoken_to(patch):
    patch.setattr(Follower, "direct", lambda *_: [])


def a_home_is_told_before_it_is_kept(patch):
    keep = Homes.keep

    def told_at_once(self, home, also):
        keep(self, home, also)
        if not self.on_disk:
            self._is_kept(*self._asked.pop(self._tickets))

    patch.setattr(Homes, "keep", told_at_once)


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
    (a_new_leader_blames_members_for_its_predecessors_silence, lived("membership", 79)),
    (a_change_without_an_answer_is_never_asked_again, lived("membership", 36)),
    (who_leads_is_not_spoken_to, lived("membership", 6)),
    (a_home_is_told_before_it_is_kept, lived("fifo", 6)),
]


@pytest.mark.parametrize(("plant", "judge"), PLANTED, ids=lambda one: one.__name__)
def test_it_is_found(plant, judge, monkeypatch):
    plant(monkeypatch)
    with pytest.raises((AssertionError, Broken)):
        judge()
