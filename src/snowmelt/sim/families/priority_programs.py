"""Processes that use one priority queue through the steps that ship; see `programs.py`.

What a door says of a lease is judged where it was asked once: whoever asked again, or said the same
by another call, may be refused though the first saying took effect.
"""

from collections.abc import Iterable
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.check.history import Ended
from snowmelt.client.leases.delivered import Delivered, items_of, priority_of
from snowmelt.client.overlay.options import Wanted
from snowmelt.client.overlay.steps import OverlaySteps
from snowmelt.core.instant import Instant, later
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.settings import QueueSettings
from snowmelt.sim.families import programs
from snowmelt.sim.families.fifo_actors import PATIENCE, Stage
from snowmelt.sim.families.priority_load import Load
from snowmelt.sim.families.priority_words import Ledger, receipts_of
from snowmelt.sim.judge.urgency import Got
from snowmelt.sim.judge.values import MANY

LIGHT: Final = 90
"""What some gets can carry: a few elements."""
SECONDS: Final = PATIENCE / 10**9
PASSING: Final = ("Unavailable", "DiskFull")


class Said(msgspec.Struct):
    """What one call says of one lease, by the indexes of its elements."""

    got: Got
    done: list[int] = []
    back: list[int] = []
    renew: list[int] = []


class Program(programs.Program):
    ledger: Ledger
    held: dict[int, Got]
    steps: OverlaySteps

    def __init__(self, stage: Stage, name: str, chance: Random, ledger: Ledger, load: Load) -> None:
        self.ledger = ledger
        self.load = load
        self.held = {}
        super().__init__(stage, name, chance)

    def opened(self) -> OverlaySteps:
        """The queue, as who begins knows it; one of a single priority is a fifo to some."""
        settings = self.ledger.settings
        fifo = settings.priorities == 1 and self.chance.random() < 0.5
        said = self.chance.choice(((), ("lease",), ("replicas", "lease")))
        if self.ledger.others:  # it may have either lease
            wants = Random(f"{self.name} wants").choice((settings, *self.ledger.others))
            return OverlaySteps(self.queue, Wanted(wants, ("replicas",)), fifo=fifo)
        return OverlaySteps(self.queue, Wanted(settings, said), fifo=fifo)

    def fall(self) -> None:
        """What it held is over as soon as the node begins again (home, rule 7)."""
        super().fall()
        now = self.now
        for got in [one for one in self.held.values() if one.ends > now]:
            self.ledger.given_back(got, list(range(len(got.values))), now, now, Ended.UNKNOWN)
            got.ends = now

    # --- what goes over the wire ------------------------------------------------------------------

    def asks(self, body: Any) -> None:
        match body:
            case calls.Put():
                self.ledger.asks(body, self.now)
            case calls.Get(settle=calls.Settle() as settle) | (calls.Settle() as settle):
                for said in self._said(settle):
                    said.got.name(map(said.got.where, [*said.done, *said.back]))
                    done = [said.got.values[index] for index in said.done]
                    self.ledger.attempted.update(dict.fromkeys(done))
                self.ledger.doomed |= settle.dead and bool(settle.reason)
            case calls.Redrive():
                self.ledger.redriving(self.now)
            case _:
                pass

    def hears(self, body: Any, called: Instant, outcome: Outcome[Any], at: Instant) -> None:
        ledger = self.ledger
        ledger.called.append((called, at, False))
        match body, outcome:
            case calls.Open(), Succeeded(calls.Opened() as opened):
                self._told_of(opened.settings, at)
            case calls.Statistics(), Succeeded(calls.Status(settings=told)):
                self._told_of(told, at)
            case _, Failed(reason) if reason.startswith("NoSuchQueue"):
                if ledger.being.denied(called, at):
                    ledger.wrong("it is there, and was said not to be", self.name)
            case calls.Put(), Succeeded(calls.PutDone() as done):
                ledger.hears(ledger.asks(body, called), done, at)
            case calls.Get(), _:
                self._leased(body, called, outcome, at)
            case calls.Settle(), _:
                self._settled(body, called, outcome, at)
            case _:
                pass

    def _told_of(self, told: QueueSettings, at: Instant) -> None:
        """What the queue is: as anybody was told before, unless all have lost it since."""
        ledger, being = self.ledger, self.ledger.being
        if told in ledger.others and (not being.known or being.lost(at)):
            ledger.is_made(told)
        if told != ledger.settings:
            ledger.wrong(f"it has {told}, and had {ledger.settings}", self.name)
        being.seen(at)

    def _leased(self, get: calls.Get, called: Instant, outcome: Outcome[Any], at: Instant) -> None:
        most, light = get.items_max, get.bytes_max <= LIGHT
        if get.settle is not None:
            self._settled(get.settle, called, outcome, at)
        match outcome:
            case Succeeded(calls.Leased() as leased):
                got = self.ledger.got(self.name, called, most, leased, at)
                if got is not None:
                    got.over = max(got.over, most - len(got.values) if light else 0)
                    self.held[got.token] = got
            case _:
                self.ledger.lose(self.name, called, at, outcome, light)

    # --- what is said of leases -------------------------------------------------------------------

    def _said(self, settle: calls.Settle) -> Iterable[Said]:
        """Of one lease after the other."""
        found: dict[int, Said] = {}

        def rows(receipts: tuple[calls.Receipt, ...]) -> Iterable[tuple[Said, list[int]]]:
            for one in receipts:
                got = self.held[one.token]
                yield found.setdefault(one.token, Said(got)), receipts_of((one,), got)

        for said, some in rows(settle.done):
            said.done += some
        for said, some in rows(settle.back):
            said.back += some
        for said, some in rows(settle.renew):
            said.renew += some
        return found.values()

    def _settled(
        self, settle: calls.Settle, called: Instant, outcome: Outcome[Any], at: Instant
    ) -> None:
        lost: tuple[calls.Receipt, ...] | None = None
        match outcome:
            case Succeeded(calls.Settled(lost=lost) | calls.Leased(lost=lost)):
                pass
            case Failed(reason) if self.sent_once and not reason.startswith(PASSING):
                self.ledger.wrong(f"{self.name} may not settle: {reason}", self.name)
            case _:
                pass
        for said in self._said(settle):
            if lost is None:
                self._ends(said, [], called, at, Ended.UNKNOWN)
            else:
                self._knows(settle, said, receipts_of(lost, said.got), called, at)

    def _knows(
        self, settle: calls.Settle, said: Said, refused: list[int], called: Instant, at: Instant
    ) -> None:
        """A node took what was said of a lease, but for what it refused."""
        ledger, got, named = self.ledger, said.got, said.got.named
        odd = any(named[got.where(one)] == 1 for one in said.done if one in refused)
        still = [one for one in said.renew if one in refused]
        odd |= any(got.where(one) not in named for one in still)
        if odd and self.sent_once:
            ledger.refused_lease(got, at, called)
        known = [one for one in said.done if one not in refused]
        self._ends(said, known, called, at, Ended.SUCCEEDED)
        taken = [one for one in said.back if one not in refused]
        dies = settle.reason and (settle.dead or ledger.settings.deliveries_max < MANY)
        if not (settle.delay or dies) and self.sent_once:
            ledger.freed.extend([(got.values[index], got, at) for index in taken])
        got.torn |= bool(refused)
        if said.renew and not got.torn:
            ledger.renewed(got, called)
        if any(one not in refused for one in said.renew):
            got.lasts = max(got.lasts, later(called, ledger.settings.lease))

    def _ends(
        self, said: Said, known: list[int], called: Instant, at: Instant, ended: Ended
    ) -> None:
        """Some are done for certain; of the others it may be so."""
        ledger, got = self.ledger, said.got
        unknown = [one for one in said.done if one not in known]
        ledger.acked(got, known, called, at, Ended.SUCCEEDED)
        ledger.acked(got, unknown, called, at, Ended.UNKNOWN)
        ledger.given_back(got, said.back, called, at, ended)
        self.takes(got.token, [got.where(index) for index in known])

    # --- what a person is told --------------------------------------------------------------------

    def got(self, delivered: Delivered) -> None:
        """Items came, as the node said, most urgent first."""
        got, put = self.held[delivered.token], self.ledger.by_value
        told = [
            (body.decode(), priority_of(part, where), where)
            for part, body, where in items_of(delivered.parts)
        ]
        said = [
            (value, put[value].priority(value), got.where(index))
            for index, value in enumerate(got.values)
        ]
        if told != said[: len(told)]:
            self.ledger.wrong(f"{self.name} is told to have {told}, and has {said}", self.name)
        self.handed(delivered, map(got.where, range(len(got.values))))
        self.believes(delivered)
