"""The synchronous mode: what is sent in one round arrives in the next, and everything is counted.

The papers on overlays count rounds, messages, congestion and the size of messages; this is their
model, for the same machines that the asynchronous world runs. In each round every node first takes
what was sent to it in the round before (by sender, in the order sent), then its timers that are
due. A round lasts `period` on every node's clock, and nothing is lost. A disk is instant here:
`Persist` is answered within the round, since no paper's model has disks.
"""

from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.instant import SECOND, START, Duration, Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import (
    CancelTimer,
    Effect,
    Event,
    Expired,
    Load,
    Node,
    Persist,
    Received,
    Scan,
    Send,
    SetTimer,
    Started,
)
from snowmelt_world.clock import wall
from snowmelt_world.disk import Disk
from snowmelt_world.trace import Trace

ROUNDS_MAX: Final = 1_000_000

_encode: Final = msgspec.msgpack.Encoder().encode


class RoundStatistics(msgspec.Struct, frozen=True):
    """What a run cost, as the papers count it."""

    rounds: int
    messages: dict[str, int]  # by type
    busiest: int  # the most messages that any node took in one round
    bits_max: int  # of the largest message, as it would cross the wire


class _Place:
    """A node, its disk, its timers, and what comes to it next round."""

    __slots__ = ("arriving", "disk", "node", "timers")

    def __init__(self, node: Node[Any]) -> None:
        self.node = node
        self.disk = Disk(Random(0))
        self.timers: dict[Enum, Instant] = {}
        self.arriving: list[tuple[NodeId, Any]] = []


class Rounds:
    """Runs nodes in lock step.

    >>> from snowmelt.protocols.echo import EchoNode
    >>> rounds = Rounds({NodeId("n1"): EchoNode()})
    >>> rounds.run(); rounds.statistics().rounds
    0
    """

    def __init__(
        self,
        nodes: dict[NodeId, Node[Any]],
        period: Duration = SECOND,
        watch: Callable[[NodeId, Effect[Any]], None] | None = None,
        *,
        keep: bool = False,
    ) -> None:
        self.trace = Trace(keep=keep)
        self.rounds = 0
        self._places = {name: _Place(node) for name, node in nodes.items()}
        self._period = period
        self._watch = watch
        self._messages: dict[str, int] = {}
        self._busiest = 0
        self._bytes_max = 0
        for name in self._places:
            self.handle(name, Started(wall=wall(self.now)))

    @property
    def now(self) -> Instant:
        return Instant(START + self.rounds * self._period)

    @property
    def quiet(self) -> bool:
        """Whether nothing is on its way and no timer is set."""
        return not any(place.arriving or place.timers for place in self._places.values())

    def run(self, rounds_max: int = ROUNDS_MAX) -> None:
        last = self.rounds + rounds_max
        while not self.quiet and self.rounds < last:
            self.step()

    def step(self) -> None:
        self.rounds += 1
        taken = {name: place.arriving for name, place in self._places.items()}
        for place in self._places.values():
            place.arriving = []
        for name, arrived in taken.items():
            self._busiest = max(self._busiest, len(arrived))
            for source, message in sorted(arrived, key=lambda pair: pair[0]):
                self.handle(name, Received(source, message))
        for name, place in self._places.items():
            due = [timer for timer, at in place.timers.items() if at <= self.now]
            for timer in due:
                if place.timers.pop(timer, None) is not None:
                    self.handle(name, Expired(timer))

    def handle(self, name: NodeId, event: Event[Any]) -> None:
        """Gives a node an event of this round, and whatever its disk answers to it."""
        place = self._places[name]
        waiting: list[Event[Any]] = [event]
        for each in waiting:  # it grows while it is walked
            effects = place.node.handle(each, self.now)
            self.trace.add(self.now, name, each, effects)
            for effect in effects:
                self._carry_out(name, place, effect, waiting)
            place.node.check()

    def statistics(self) -> RoundStatistics:
        messages = dict(sorted(self._messages.items()))
        return RoundStatistics(self.rounds, messages, self._busiest, 8 * self._bytes_max)

    def _carry_out(
        self, name: NodeId, place: _Place, effect: Effect[Any], waiting: list[Event[Any]]
    ) -> None:
        match effect:
            case Send(target, message):
                self._send(name, target, message)
            case SetTimer(timer, at):
                place.timers[timer] = at
            case CancelTimer(timer):
                place.timers.pop(timer, None)
            case Persist():
                place.disk.ask(effect)
                waiting += place.disk.flush()
            case Load() | Scan():
                waiting.append(place.disk.answer(effect))
            case _:
                pass
        if self._watch is not None:
            self._watch(name, effect)

    def _send(self, source: NodeId, target: NodeId, message: Any) -> None:
        kind = type(message).__name__
        self._messages[kind] = self._messages.get(kind, 0) + 1
        self._bytes_max = max(self._bytes_max, len(_encode(message)))
        if target in self._places:
            self._places[target].arriving.append((source, message))
