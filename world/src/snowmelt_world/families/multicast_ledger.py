"""What is known of one topic of a simulated world, and what of it may never be seen.

Publications are witnessed where nodes send them; what a listener heard is what a person sees of it:
messages with their positions, and how often something may be missing. An order is one if no two
publications share a position and no listener ever goes back; that is judged at once. At the end the
listeners are compared with each other, by tickets alone.
"""

from collections.abc import Iterable
from itertools import combinations, pairwise
from typing import Final

import msgspec

from snowmelt.client.multicast.steps import ListenerProgress, Message
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.membership import View
from snowmelt.protocols.multicast.calls import Position, Publication
from snowmelt_world.world import Broken

FINAL: Final = 2
"""The round in which nothing may be missing any more."""


class Wish(msgspec.Struct):
    ticket: int
    bodies: tuple[bytes, ...]
    asked: Instant
    round: int
    """0 while there are faults; then the first or the second time that all publish once more."""
    answered: Instant | None = None
    refused: str = ""
    """Why nobody is ever to hear it, as its publisher was told."""


class Gap(msgspec.Struct, frozen=True):
    """A listener stood here, and got something from there on; and whether it was told."""

    start: Position
    stop: Position
    told: bool
    heard: int
    """So many publications it had heard before."""


class Stay(msgspec.Struct, frozen=True):
    """A listener's node, and since when it answers."""

    node: NodeId
    since: Instant


class Ear:
    def __init__(self, name: str, *, slow: bool = False) -> None:
        self.name = name
        self.slow = slow
        """Whether it works on what came while more comes."""
        self.asked = Instant(0)
        """When it asked what brought it the beginning."""
        self.position: Position | None = None
        """Behind what it saw last, or where it began."""
        self.missed = 0
        """How often something may be missing, as it was told."""
        self.began: Instant | None = None
        self.stay: Stay | None = None
        """None before it has begun, and until a node answers after one has not."""
        self.tickets: list[int] = []
        self.gaps: list[Gap] = []

    def stays(self, node: NodeId, now: Instant) -> None:
        """A node answers, and it has begun."""
        if self.stay is None or self.stay.node != node:
            self.stay = Stay(node, now)
            self.began = now if self.began is None else self.began

    def take(self, one: Publication, *, told: bool) -> None:
        """It sees this, and may have been told that something is missing."""
        if self.position is None or one.first < self.position:
            raise Broken(f"{self.name} at {self.position} was told of {one.first}", self.name)
        if one.ticket in self.tickets:
            raise Broken(f"{self.name} saw {one.ticket} twice", self.name)
        self.gaps.append(Gap(self.position, one.first, told, len(self.tickets)))
        self.tickets.append(one.ticket)
        self.position = one.stop


class Ledger:
    def __init__(self, *, small: bool = False) -> None:
        self.small = small
        """Whether nodes keep so little that a slow listener misses some."""
        self.wishes: dict[int, Wish] = {}
        self.ears: dict[NodeId, Ear] = {}
        self.failed: dict[NodeId, Instant] = {}
        """When a node last was not, or may not have been, what it should be."""
        self.calls = 0
        """How many publications there were for a listener to hear."""
        self.excused: dict[str, int] = {}
        self._bursts = 0
        self._placed: dict[Position, Publication] = {}
        self._places: dict[int, dict[Position, None]] = {}
        self._heard: dict[Position, Position] = {}
        self._kept: dict[Position, dict[tuple[NodeId, int], None]] = {}

    @property
    def twice(self) -> int:
        """How many publications have more than one place."""
        return sum(len(places) > 1 for places in self._places.values())

    def may_burst(self) -> bool:
        """Whether so much may be published at once as takes several calls; nodes keep that much."""
        self._bursts += 1
        return self._bursts == 1 and not self.small

    def asks(self, wish: Wish) -> None:
        self.wishes[wish.ticket] = wish

    def numbered(self, one: Publication) -> None:
        before = self._placed.setdefault(one.first, one)
        if before != one:
            text = f"at {one.first} stand {before.ticket} and {one.ticket}"
            raise Broken(text, str(one.first))
        self._places.setdefault(one.ticket, {})[one.first] = None

    def keeps(self, node: NodeId, life: int, places: Iterable[Position]) -> None:
        for first in places:
            self._kept.setdefault(first, {})[node, life] = None

    def promises(self, node: NodeId, view: View, first: Position) -> None:
        """A node says that all members of its view have this."""
        kept = self._kept.get(first, {})
        for one in view.members:
            if one.id != node and (one.id, one.life) not in kept:
                text = f"{node} promised that all have {first}, and {one.id}/{one.start} has not"
                raise Broken(text, node)

    def stands(self, wish: Wish, first: Position) -> bool:
        """Whether a node was seen to say that this is there."""
        return first in self._places.get(wish.ticket, {})

    def refused(self, ticket: int, why: str) -> None:
        wish = self.wishes[ticket]
        if wish.answered is not None:
            raise Broken(f"{ticket} is with every node, and was said to be refused: {why}", "")
        wish.refused = why

    def hears(self, listener: NodeId, came: list[Message], following: ListenerProgress) -> None:
        """A listener sees what has come, and that something may be missing in it, or before it."""
        ear = self.ears[listener]
        if ear.position is None:
            ear.position = following.position if not came else came[0].position
        at, told = 0, following.missed > ear.missed
        ear.missed = following.missed
        while at < len(came):
            one = self._placed.get(came[at].position)
            if one is None or came[at : at + len(one.bodies)] != _messages(one):
                text = f"{listener} sees {came[at]}, which stands there by no node's word"
                raise Broken(text, listener)
            self._hears(ear, one, told=told)
            at += len(one.bodies)

    def _hears(self, ear: Ear, one: Publication, *, told: bool) -> None:
        ear.take(one, told=told)
        self._heard[one.first] = one.stop
        wish = self.wishes.get(one.ticket)
        if wish is None or wish.bodies != one.bodies:
            raise Broken(f"{ear.name} heard {one.ticket}, which nobody published", ear.name)

    def fails(self, node: NodeId, now: Instant) -> None:
        self.failed[node] = now

    # --- at the end -------------------------------------------------------------------------------

    def judge(self, *, calm: bool) -> None:
        """Compares the listeners; where there were no faults they have missed nothing."""
        if calm:
            self._judge_calm()
        self._judge_order()
        self._judge_silence()
        self._judge_refused()
        self._judge_promises()
        self._judge_end()

    def _judge_calm(self) -> None:
        for ear in self.ears.values():
            if ear.missed:
                raise Broken(f"{ear.name} missed something without a fault", ear.name)
            for ticket in ear.tickets:
                answered = self.wishes[ticket].answered
                if answered is not None and answered < ear.asked:
                    text = f"{ear.name} heard {ticket}, which all had before it began"
                    raise Broken(text, ear.name)
        if self.twice:
            raise Broken("something was numbered twice without a fault", "")

    def _judge_order(self) -> None:
        once = {ticket: None for ticket, places in self._places.items() if len(places) == 1}
        for one, other in combinations(self.ears.values(), 2):
            places = {ticket: at for at, ticket in enumerate(other.tickets)}
            common = [places[t] for t in one.tickets if t in places and t in once]
            for before, after in pairwise(common):
                if before > after:
                    text = f"{one.name} and {other.name} heard the same in two orders"
                    raise Broken(text, one.name)

    def _judge_silence(self) -> None:
        """Whoever was not told has missed nothing that anybody heard since it began."""
        for ear in self.ears.values():
            for gap in ear.gaps:
                if gap.told or self._passed_over(ear, gap):
                    continue
                missing = [one for one in self._heard if gap.start <= one < gap.stop]
                if missing:
                    text = f"{ear.name} missed {missing[0]} and was not told"
                    raise Broken(text, ear.name)
                text = f"{ear.name} came from {gap.start} to {gap.stop} and was not told"
                raise Broken(text, ear.name)

    def _passed_over(self, ear: Ear, gap: Gap) -> bool:
        """Whether there is only what it had heard before, at another place."""
        at, heard = gap.start, dict.fromkeys(ear.tickets[: gap.heard])
        while at != gap.stop:
            one = self._placed.get(at)
            if one is None or one.ticket not in heard:
                return False
            at = one.stop
        return True

    def _judge_refused(self) -> None:
        """What was said to be published by nobody, nobody hears."""
        for ear in self.ears.values():
            for ticket in ear.tickets:
                why = self.wishes[ticket].refused
                if why:
                    text = f"{ear.name} heard {ticket}, which was refused: {why}"
                    raise Broken(text, ear.name)

    def _judge_promises(self) -> None:
        """What was answered all who listened before have heard, or were told what may be missed."""
        for ear in self.ears.values():
            heard = dict.fromkeys(ear.tickets)
            for wish in self.wishes.values():
                if wish.answered is None or ear.began is None or wish.asked <= ear.began:
                    continue
                self.calls += 1
                if wish.ticket in heard:
                    continue
                excuse = self._excuse(ear, wish)
                if not excuse or not ear.missed:
                    text = f"{ear.name} never heard {wish.ticket}, which all nodes had"
                    raise Broken(text, ear.name)
                self.excused[excuse] = self.excused.get(excuse, 0) + 1

    def _excuse(self, ear: Ear, wish: Wish) -> str:
        """What may be missed, and when, is in `multicast.md`; nothing where nothing may be."""
        if ear.stay is None or wish.asked <= ear.stay.since:
            return "its listener has changed its node"
        if ear.slow and self.small:
            return "its listener was slower than what nodes keep"
        failed = self.failed.get(ear.stay.node, Instant(-1)) >= ear.stay.since
        return "its listener's node has failed" if failed else ""

    def _judge_end(self) -> None:
        """When all was at rest everybody heard the same."""
        final = {ticket: None for ticket, wish in self.wishes.items() if wish.round == FINAL}
        ends = {
            ear.name: [ticket for ticket in ear.tickets if ticket in final]
            for ear in self.ears.values()
        }
        for name, end in ends.items():
            for other, its in ends.items():
                if end != its:
                    raise Broken(f"{name} and {other} heard different ends", name)


def _messages(one: Publication) -> list[Message]:
    """As a listener sees them."""
    era, first = one.first.era, one.first.number
    return [Message(body, Position(era, first + at)) for at, body in enumerate(one.bodies)]
