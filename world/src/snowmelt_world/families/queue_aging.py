"""A queue that keeps its items for seconds, whose items are dropped and brought back by hand.

Besides putting and taking, some look at an item, drop one, or have one be ready, whoever has it.
When the load is over the rest is left until it has aged. What may not be seen is in
`judge/aging.py`.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar

import msgspec

from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.queue.one_item import DROPPED, READY, change, look_at
from snowmelt.core.errors import NoSuchQueue
from snowmelt.core.instant import Instant, milliseconds, seconds
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.api.statuses import ItemStanding, QueueStatus
from snowmelt_world.check.history import Kind, Value
from snowmelt_world.families.programs import FAILURES, pause
from snowmelt_world.families.queue_by_key import LOST_AFTER, KeyLedger, KeyLife, KeyUser, KeyUsers
from snowmelt_world.families.queue_deleted import SHORT
from snowmelt_world.faults import ClockJump, WallClock
from snowmelt_world.judge.aging import Aging, Change, Look


class AgedLedger(KeyLedger):
    """What became of items, besides."""

    changes: list[Change] = msgspec.field(default_factory=list)
    ended: list[Look] = msgspec.field(default_factory=list)
    in_vain: list[Instant] = msgspec.field(default_factory=list)
    aged: int | None = None

    def judge(self) -> None:
        """By the rules of `judge/aging.py`."""
        if self.keeps:
            Aging(
                self.queue,
                self.settings.retention,
                self.leaps,
                self.seen,
                self.changes,
                self.ended,
                self.in_vain,
                self.aged,
            ).judge()

    def places(self) -> dict[str, int]:
        """Where each lies, of which somebody was told."""
        return {
            str(value): place
            for one in self.seen
            if one.kind in (Kind.PUT, Kind.GET)
            for value, place in zip(one.values, one.positions, strict=False)
        }


class AgedUser(KeyUser):
    """Puts, takes, looks at items, and changes them."""

    keys: AgedLedger
    words = ("put", "put", "put", "get", "get", "look", "look", DROPPED, READY)

    def does(self, word: str) -> Steps[None]:
        """One of the things that it does."""
        some = self.keys.places() if word in ("look", DROPPED, READY) else {}
        if not some:
            return super().does(word if word in ("put", "get") else "put")
        value = self.chance.choice(list(some)[-8:])
        if word == "look":
            return self._looks(value, some[value])
        return self._changes(value, some[value], word)

    def _takes_some(self) -> Steps[None]:
        try:
            yield from self.take(self.chance.choice((1, 2, 9)), 0.6)
        except FAILURES:
            self.keys.in_vain.append(self.now)

    def _note(self, kind: Kind, values: Sequence[Value], called: Instant, **more: Any) -> None:
        """Now and then what just came is taken back from it, before it says what became of it."""
        super()._note(kind, values, called, **more)
        if kind is Kind.GET and values and self.chance.random() < 0.3:
            value, place = str(values[0]), more["positions"][0]
            wait = self.some(milliseconds(300))
            self.after(wait, lambda: self.run(self._changes(value, place, READY)))

    def _looks(self, value: str, place: int) -> Steps[None]:
        try:
            told = yield from look_at(self.steps, place, None, Wait(SHORT))
        except FAILURES:
            return
        if told.standing is ItemStanding.ENDED:
            self.keys.ended.append(Look(value, self.now))

    def _changes(self, value: str, place: int, to: str) -> Steps[None]:
        called, noted = self.now, Change(value, to, self.now, None)
        self.keys.changes.append(noted)
        at = len(self.keys.changes) - 1
        asks = change(self.steps, place, None, Wait(SHORT), drop=to == DROPPED)
        try:
            done = yield from asks
        except FAILURES:
            return
        told = self.keys.changes[at] = Change(value, to, called, self.now, done)
        if to == DROPPED and not done:  # what was sent twice may have been done the first time
            self.keys.ended.append(Look(value, self.now, told if self.sent_once else None))

    def is_empty(self, status: QueueStatus) -> bool:
        """Also of what is dead: it ages."""
        self.keys.aged = status.aged
        return super().is_empty(status) and not status.dead

    def close(self) -> Steps[None]:
        """Waits until all has aged, and takes nothing."""
        vain = 0
        while vain < LOST_AFTER:
            try:
                if self.is_empty((yield from self.steps.stats(SHORT))):
                    return
            except NoSuchQueue:
                break
            except FAILURES:
                vain += 1
            yield pause(seconds(1))
        self.keys.aged = None


class AgedUsers(KeyUsers):
    """All of a life."""

    user = AgedUser
    ledger = AgedLedger

    def settings(self, dice: Random, nodes: int) -> QueueSettings:
        """It keeps items for a few seconds."""
        return QueueSettings(
            replicas=dice.randint(1, nodes),
            lease=seconds(3),
            deliveries_max=dice.choice((1, 2, 1_000)),
            retention=seconds(dice.choice((5, 10, 20))),
        )


class AgingLife(KeyLife):
    """A life of queues with one whose items age, and are changed one by one."""

    users: ClassVar[type[KeyUsers]] = AgedUsers
    leaps = (ClockJump, WallClock)
