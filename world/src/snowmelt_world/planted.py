"""Known bugs to plant in any family, to show that the world finds them.

A bug is a wrapper round a node: it spoils what the node returns in a way that a person could have
written. `snowmelt sim --plant` puts one into every node of a life. A sweep that does not find it is
a sweep not worth running.
"""

from enum import Enum
from typing import Any, Final

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.node import (
    Announce,
    Announced,
    Effect,
    Event,
    Node,
    Persist,
    Persisted,
    PersistFailed,
    Received,
    Send,
    SetTimer,
)
from snowmelt.protocols.baton.messages import Pass
from snowmelt.protocols.membership import View


class Bug(Enum):
    """The bugs there are to plant."""

    REPLY_BEFORE_PERSISTED = "reply-before-persisted"
    FORGOTTEN_TIMER = "forgotten-timer"
    UNSORTED_BROADCAST = "unsorted-broadcast"
    IGNORED_FAILURE = "ignored-failure"
    FORGOTTEN_WRITE = "forgotten-write"
    LATE_CLOCK = "late-clock"
    HINT_BELIEVED = "hint-believed"
    REVIVED_TOKEN = "revived-token"  # noqa: S105 - a baton's, not a password
    COUNTED_EARLY = "counted-early"
    TOLD_UNFLUSHED = "told-unflushed"
    SKIPPED_STEP = "skipped-step"
    STALE_COPY = "stale-copy"
    UNFENCED = "unfenced"
    MERGED_NUMBERS = "merged-numbers"
    LATE_LEASE = "late-lease"
    FORGOTTEN_ANSWER = "forgotten-answer"
    CUT_ENDURED = "cut-endured"
    FORGOTTEN_GRAVE = "forgotten-grave"
    LEFT_COPY = "left-copy"
    KEPT_COPY = "kept-copy"
    EARLY_ERASING = "early-erasing"
    EARLY_EMPTY = "early-empty"


_BUGS: Final = tuple(Bug)
QUEUE_BUGS: Final = _BUGS[_BUGS.index(Bug.COUNTED_EARLY) :]
"""Those of the queue's own machine (`families/fifo_planted.py`)."""


def bugs_of(protocol: str) -> tuple[Bug, ...]:
    """The bugs that can be planted in a family's lives.

    >>> Bug.LATE_LEASE in bugs_of("queue"), Bug.LATE_LEASE in bugs_of("echo")
    (True, False)
    """
    return tuple(bug for bug in Bug if protocol == "queue" or bug not in QUEUE_BUGS)


def planted(bug: Bug | None, node: Node[Any]) -> Node[Any]:
    """The node with this bug in it, or as it was."""
    match bug:
        case None:
            return node
        case Bug.REPLY_BEFORE_PERSISTED:
            return ReplyBeforePersisted(node)
        case Bug.FORGOTTEN_TIMER:
            return ForgottenTimer(node)
        case Bug.UNSORTED_BROADCAST:
            return UnsortedBroadcast(node)
        case Bug.IGNORED_FAILURE:
            return IgnoredFailure(node)
        case Bug.FORGOTTEN_WRITE:
            return ForgottenWrite(node)
        case Bug.LATE_CLOCK:
            return LateClock(node)
        case Bug.REVIVED_TOKEN:
            return RevivedToken(node)
        case _:
            return node  # it is in one of the node's machines already


class _Spoiled:
    """A node inside another that spoils its effects."""

    def __init__(self, node: Node[Any]) -> None:
        self._node = node

    def check(self) -> None:
        self._node.check()


class ReplyBeforePersisted(_Spoiled):
    """Tells what depends on a flush without waiting for it."""

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """Says `Persisted` to the node as soon as it asks; the true one is thrown away."""
        if isinstance(event, Persisted | PersistFailed):
            return []
        effects = self._node.handle(event, now)
        spoiled: list[Effect[Any]] = []
        while effects:
            effect = effects.pop(0)
            spoiled.append(effect)
            if isinstance(effect, Persist):
                effects += self._node.handle(Persisted(effect.ticket), now)
        return spoiled


class ForgottenTimer(_Spoiled):
    """Sets every timer at most twice; after that it forgets."""

    def __init__(self, node: Node[Any]) -> None:
        super().__init__(node)
        self._set: dict[Enum, int] = {}

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """As the node does, with timers missing."""
        kept: list[Effect[Any]] = []
        for effect in self._node.handle(event, now):
            if isinstance(effect, SetTimer):
                self._set[effect.timer] = self._set.get(effect.timer, 0) + 1
                if self._set[effect.timer] > 2:
                    continue
            kept.append(effect)
        return kept


class UnsortedBroadcast(_Spoiled):
    """Sends in the order of a set, which differs from process to process."""

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """As the node does, its messages in the order of their targets' hashes."""
        effects = self._node.handle(event, now)
        sends = sorted(
            (effect for effect in effects if isinstance(effect, Send)),
            key=lambda send: hash(send.target),
        )
        others = [effect for effect in effects if not isinstance(effect, Send)]
        return others + sends


class IgnoredFailure(_Spoiled):
    """Takes a disk that failed for one that has no room, and goes on."""

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """As the node does, which is not told that it must halt."""
        if isinstance(event, PersistFailed):
            event = PersistFailed(event.ticket, event.reason)
        return self._node.handle(event, now)


class ForgottenWrite(_Spoiled):
    """Leaves the last change out of each tenth step that has several."""

    def __init__(self, node: Node[Any]) -> None:
        super().__init__(node)
        self._steps = 0

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """As the node does, with changes missing that it believes to be safe."""
        return [self._forgotten(effect) for effect in self._node.handle(event, now)]

    def _forgotten(self, effect: Effect[Any]) -> Effect[Any]:
        if not isinstance(effect, Persist) or len(effect.changes) < 2:
            return effect
        self._steps += 1
        return effect if self._steps % 10 else Persist(effect.ticket, effect.changes[:-1])


class LateClock(_Spoiled):
    """Reads the clock after each event instead of before it: who slept does not know it yet."""

    def __init__(self, node: Node[Any]) -> None:
        super().__init__(node)
        self._read: Instant | None = None

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """As the node does, at the time of the event before."""
        late, self._read = self._read, now
        return self._node.handle(event, now if late is None else late)


class RevivedToken(_Spoiled):
    """Takes every baton that comes, also one that was sent to another life of this node."""

    def __init__(self, node: Node[Any]) -> None:
        super().__init__(node)
        self._views: list[View] = []

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """As the node does, which believes that each `Pass` is meant for this life of it."""
        if isinstance(event, Announced) and isinstance(event.fact, View):
            self._views = [event.fact]
        if isinstance(event, Received) and isinstance(event.message, Pass) and self._views:
            event = Received(event.source, self._redirected(event.message))
        effects = self._node.handle(event, now)
        for effect in effects:
            if isinstance(effect, Announce) and isinstance(effect.fact, View):
                self._views = [effect.fact]
        return effects

    def _redirected(self, word: Pass) -> Pass:
        me = self._views[0].member(word.place.node)
        return word if me is None else msgspec.structs.replace(word, life=me.life)
