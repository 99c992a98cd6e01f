"""What one node's clients publish under one topic, until everybody has it: rules 1, 2, 4 and 5."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Reply, Send
from snowmelt.protocols.multicast import calls
from snowmelt.protocols.multicast.messages import Broadcast

Effects = list[Effect[Any]]

REMEMBERED: Final = 10_000
"""So many publications that everybody has are known by their tickets."""
SAID_BYTES: Final = 4 << 20
"""So much is said at once, if it is more than one publication."""
NEVER: Final = Instant(-(2**62))
BODY_COST: Final = 64
"""What a body costs besides its bytes; one that has none is not free."""


class PendingPublish(msgspec.Struct):
    ticket: int
    bodies: tuple[bytes, ...]
    size: int
    operation: OperationId | None = None
    """The call that waits for an answer."""
    until: Instant = Instant(0)
    """When it is answered `Underway`; when there is none, until when it may come again."""
    publication: calls.Publication | None = None
    """Where it stands; None until it is numbered."""
    heard: set[NodeId] = msgspec.field(default_factory=set)
    said: Instant = NEVER


class TopicWriter:
    """All wishes of one topic at one node, by ticket; first come, first numbered."""

    def __init__(self) -> None:
        self.bytes = 0
        self._wishes: dict[int, PendingPublish] = {}
        self._waiting: dict[int, PendingPublish] = {}  # those of them that have no number
        self._placed: dict[calls.Position, PendingPublish] = {}
        self._done: OrderedDict[int, calls.Position] = OrderedDict()

    def __len__(self) -> int:
        return len(self._wishes)

    def unnumbered(self) -> list[PendingPublish]:
        """Those that wait for the baton, first come first."""
        return list(self._waiting.values())

    def unheard(self, before: Instant | None = None) -> list[PendingPublish]:
        """Those that are numbered, and were not said since."""
        return [one for one in self._placed.values() if before is None or one.said <= before]

    # --- clients ----------------------------------------------------------------------------------

    def again(self, operation: OperationId, call: calls.Publish, now: Instant) -> Effects | None:
        """What is known of this ticket; None for nothing."""
        done = self._done.get(call.ticket)
        if done is not None:
            return [Reply(operation, calls.Published(done))]
        wish = self._wishes.get(call.ticket)
        if wish is None:
            return None
        _called(wish, operation, call, now)
        return []

    def add(self, operation: OperationId, call: calls.Publish, now: Instant) -> PendingPublish:
        size = cost(call.bodies)
        wish = PendingPublish(call.ticket, call.bodies, size)
        self._wishes[call.ticket] = self._waiting[call.ticket] = wish
        self.bytes += size
        _called(wish, operation, call, now)
        return wish

    def expire(self, now: Instant) -> Effects:
        """Answers the calls that have waited enough; forgets what nobody asks for in time."""
        effects: Effects = []
        for wish in list(self._wishes.values()):
            if wish.until > now:
                continue
            if wish.operation is not None:
                effects.append(_put_off(wish, wish.operation, now))
            elif wish.publication is None:
                self._remove(wish)
        return effects

    def put_off(self, now: Instant) -> Effects:
        """Answers all calls: this node can do nothing for them now."""
        waiting = [(one, one.operation) for one in self._wishes.values()]
        return [
            _put_off(one, operation, now) for one, operation in waiting if operation is not None
        ]

    # --- nodes ------------------------------------------------------------------------------------

    def place(self, wish: PendingPublish, publication: calls.Publication) -> None:
        del self._waiting[wish.ticket]
        wish.publication = publication
        wish.heard.clear()
        self._placed[publication.first] = wish

    def heard(self, source: NodeId, positions: Iterable[calls.Position]) -> list[PendingPublish]:
        """A node has these; returns whose they are."""
        wishes = [self._placed[first] for first in positions if first in self._placed]
        for wish in wishes:
            wish.heard.add(source)
        return wishes

    def displaced(self, positions: Iterable[calls.Position]) -> list[PendingPublish]:
        """A node has gone past these: they are to be numbered anew."""
        wishes = [self._placed.pop(first) for first in positions if first in self._placed]
        for wish in wishes:
            wish.publication = None
            self._waiting[wish.ticket] = wish
        return wishes

    def forget(self, gone: frozenset[NodeId]) -> None:
        """What these had heard, they have forgotten."""
        for wish in self._placed.values():
            wish.heard -= gone

    def settle(self, wishes: Iterable[PendingPublish], others: Sequence[NodeId]) -> Effects:
        """Answers those of these that all have heard."""
        effects: Effects = []
        for wish in wishes:
            first = None if wish.publication is None else wish.publication.first
            if first is None or self._placed.get(first) is not wish:
                continue  # it was settled before
            if any(node not in wish.heard for node in others):
                continue
            del self._placed[first]
            self._remove(wish)
            self._remember(wish.ticket, first)
            if wish.operation is not None:
                effects.append(Reply(wish.operation, calls.Published(first)))
        return effects

    def _remove(self, wish: PendingPublish) -> None:
        del self._wishes[wish.ticket]
        self._waiting.pop(wish.ticket, None)
        self.bytes -= wish.size

    def _remember(self, ticket: int, first: calls.Position) -> None:
        self._done[ticket] = first
        if len(self._done) > REMEMBERED:
            self._done.popitem(last=False)

    def check(self) -> None:
        assert self.bytes == sum(one.size for one in self._wishes.values())
        for first, wish in self._placed.items():
            assert wish.publication is not None
            assert wish.publication.first == first
            assert self._wishes[wish.ticket] is wish
        assert len(self._waiting) + len(self._placed) == len(self._wishes)


def cost(bodies: Sequence[bytes]) -> int:
    return sum(map(len, bodies)) + BODY_COST * (len(bodies) + 1)


def say(
    name: str, wishes: Sequence[PendingPublish], others: Sequence[NodeId], now: Instant
) -> Effects:
    """Says what is numbered to those who have not heard it."""
    effects: Effects = []
    for node in others:
        unheard = [one for one in wishes if node not in one.heard]
        effects += [Send(node, Broadcast(name, part)) for part in _parts(unheard, now)]
    return effects


def _called(
    wish: PendingPublish, operation: OperationId, call: calls.Publish, now: Instant
) -> None:
    wish.operation = operation
    wish.until = later(now, min(call.wait, calls.POLL))


def _put_off(wish: PendingPublish, operation: OperationId, now: Instant) -> Effect[Any]:
    wish.operation, wish.until = None, later(now, calls.PATIENCE)
    return Reply(operation, calls.Underway())


def _parts(
    wishes: Iterable[PendingPublish], now: Instant
) -> Iterator[tuple[calls.Publication, ...]]:
    """Publications, as few messages as they fit into."""
    part: list[calls.Publication] = []
    size = 0
    for wish in wishes:
        assert wish.publication is not None
        wish.said = now
        if part and size + wish.size > SAID_BYTES:
            yield tuple(part)
            part, size = [], 0
        part.append(wish.publication)
        size += wish.size
    if part:
        yield tuple(part)
