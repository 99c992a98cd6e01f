"""One topic at one node: who publishes, who listens, and whose turn it is: rules 1 to 5."""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announce, Effect, Note, Reply, Send
from snowmelt.protocols.baton.messages import BatonGot, Drop, SeekBaton
from snowmelt.protocols.baton.settings import TOPICS
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.multicast.calls import Listen, Position, Publication, Publish
from snowmelt.protocols.multicast.circle import Circle
from snowmelt.protocols.multicast.listening import WaitingListens
from snowmelt.protocols.multicast.messages import SAFE, Acknowledge, Have, Upto
from snowmelt.protocols.multicast.receiver import TopicReceiver
from snowmelt.protocols.multicast.settings import MulticastSettings
from snowmelt.protocols.multicast.topic_writer import PendingPublish, TopicWriter, cost, say

Effects = list[Effect[Any]]

NUMBERS_MAX: Final = 2**62
AHEAD_MAX: Final = 2**54
"""A listener's era is at most so far ahead of the fences: more than a hundred years of theirs."""


class TopicHead(msgspec.Struct, frozen=True, array_like=True):
    """What a topic's baton carries: the position that is next."""

    era: int
    number: int
    made: int
    """Which baton it is; what another one carried counts no more."""


class Topic:
    """One name at one node."""

    def __init__(
        self, name: str, circle: Circle, settings: MulticastSettings, chance: Random
    ) -> None:
        self.name: Final = name
        self.hearing: Final = TopicReceiver(name, circle, settings)
        self._circle = circle
        self._settings = settings
        self._chance = chance
        self._writing: Final = TopicWriter()
        self._listening: Final = WaitingListens()
        self._seeking: int | None = None
        self._awake_until = Instant(0)
        self._beats = 0
        """Since anything happened."""
        self._era = 0
        """The latest that a listener came with."""

    def idle(self, now: Instant) -> bool:
        busy = len(self._writing) or self._listening or self._seeking is not None
        return not busy and now >= self._awake_until

    # --- clients ----------------------------------------------------------------------------------

    def publish(self, operation: OperationId, call: Publish, now: Instant) -> Effects:
        self._wake(now)
        known = self._writing.again(operation, call, now)
        if known is not None:
            return known
        queued = self._writing.bytes
        if queued and queued + cost(call.bodies) > self._settings.queued_bytes:
            text = (
                f"{self._circle.me} has {queued} bytes of {self.name} that not "
                "everybody has heard; publish again later"
            )
            return [Reply(operation, Declined("Full", text))]
        wish = self._writing.add(operation, call, now)
        return self._say([wish], now) if self._adopted(wish) else self._seek()

    def listen(self, operation: OperationId, call: Listen, now: Instant) -> Effects:
        self._wake(now)
        if call.start is not None:
            self._era = max(self._era, call.start.era)
        hearing, listening = self.hearing, self._listening
        before = hearing.line.next, hearing.abreast
        begun = hearing.begin(now)
        moved = before != (hearing.line.next, hearing.abreast)
        told = listening.answer(hearing.line, abreast=hearing.abreast) if moved else []
        own = listening.add(operation, call, hearing.line, now, abreast=hearing.abreast)
        return [*begun, *told, *own, *self._seek()]

    def _news(self, effects: Effects) -> Effects:
        """What came of a step at the line, and what it has to tell to those who listen."""
        hearing = self.hearing
        told = self._listening.answer(hearing.line, abreast=hearing.abreast)
        hearing.line.trim()  # not before (rule 10)
        return effects + told + self._seek()

    def gone(self, client: NodeId) -> None:
        self._listening.gone(client)

    # --- numbering: rules 2 and 3 -----------------------------------------------------------------

    def got(self, got: BatonGot, now: Instant) -> Effects:
        """The baton is here: numbers all that waits, or learns the end, and lets it go."""
        wishes = self._writing.unnumbered()
        asked = got.ticket == self._seeking
        if asked:
            self._seeking = None
        if not asked or not (wishes or self.hearing.unbegun):
            return [Announce(Drop(got.name, got.ticket, None))]
        carried = _carried(got)
        place = _next_position(got.fence, carried, self.hearing.line.furthest, self._era)
        for wish in wishes:
            if self._adopted(wish):
                continue
            publication = Publication(place, wish.ticket, wish.bodies)
            place = publication.stop
            self.hearing.line.take(publication, own=True)
            self._writing.place(wish, publication)
        carries = TopicHead(place.era, place.number, got.made)
        value = None if place == carried else msgspec.msgpack.encode(carries)
        dropped = Announce(Drop(got.name, got.ticket, value))
        said = self._say(wishes, now)
        moved = self.hearing.moved(now) if wishes else self.hearing.ends(place, now)
        return [dropped, *said, *self._news(moved)]

    def _adopted(self, wish: PendingPublish) -> bool:
        known = self.hearing.line.known(wish.ticket)
        if known is None:
            return False
        self._writing.place(wish, known)
        return True

    def _seek(self) -> Effects:
        if self._seeking is not None or not self._circle.current:
            return []
        begins = bool(self._listening) and self.hearing.unbegun
        if not begins and not self._writing.unnumbered():
            return []
        self._seeking = self._chance.getrandbits(63)
        return [Announce(SeekBaton(TOPICS + self.name, self._seeking))]

    # --- saying: rules 4 and 5 --------------------------------------------------------------------

    def _say(self, wishes: Sequence[PendingPublish], now: Instant) -> Effects:
        if not self._circle.current:
            return []
        others = self._circle.others
        return say(self.name, wishes, others, now) + self._writing.settle(wishes, others)

    def heard(self, source: NodeId, heard: Acknowledge, now: Instant) -> Effects:
        """A node tells what became of what was said to it."""
        if not self._circle.has_life(source, heard.life):
            return []
        wishes = self._writing.heard(source, heard.here)
        displaced = self._writing.displaced(heard.beyond)
        effects: Effects = []
        if displaced:
            for wish in displaced:
                self.hearing.line.disown(wish.ticket)
            self._wake(now)
            text = f"{source} is past {len(displaced)} publications of {self.name}: numbered anew"
            effects.append(Note(text))
        if self._circle.current:
            effects += self._writing.settle(wishes, self._circle.others)
        return effects + self._seek()

    # --- hearing ----------------------------------------------------------------------------------

    def said(self, source: NodeId, publications: Sequence[Publication], now: Instant) -> Effects:
        self._wake(now)
        return self._news(self.hearing.said(source, publications, now))

    def have(self, source: NodeId, have: Have, now: Instant) -> Effects:
        return self._news(self.hearing.have(source, have, now))

    # --- views and time ---------------------------------------------------------------------------

    def entered(self, gone: frozenset[NodeId], now: Instant) -> Effects:
        """A new view: what was said is said to its members, and what is unknown is sought there."""
        self._wake(now)
        self._writing.forget(gone)
        begun = self._news(self.hearing.begin(now))
        return [*self._say(self._writing.unheard(), now), *begun]

    def cut_off(self, why: Declined, now: Instant) -> Effects:
        self.hearing.stop()
        return self._writing.put_off(now) + self._listening.send_away(why)

    def beat(self, now: Instant, *, many: bool) -> Effects:
        """Sends again what may be lost, and answers who has waited enough.

        Where there are many topics most are only there, and each look is a short one.
        """
        effects: Effects = []
        busy = len(self._writing) or self._listening
        if busy:
            effects += self._writing.expire(now) + self._listening.expire(now)
        if not self._circle.current:
            return effects
        if busy:
            effects += self._say(self._writing.unheard(Instant(now - self._settings.beat)), now)
        before, moved = self.hearing.line.next, self.hearing.beat(now)
        if busy or moved or before != self.hearing.line.next:
            effects += self._news(moved)
        self._beats += 1
        says = not many or self._beats & (self._beats - 1) == 0  # rule 9
        if says and now < self._awake_until and self._circle.others:
            node = self._chance.choice(self._circle.others)
            effects.append(Send(node, Upto(self.name, self.hearing.line.next)))
        return effects

    def _wake(self, now: Instant) -> None:
        self._awake_until, self._beats = later(now, self._settings.awake), 0

    def check(self) -> None:
        self.hearing.line.check()
        self._writing.check()
        if self._circle.current and self._writing.unnumbered():
            assert self._seeking is not None, f"nobody seeks the baton of {self.name}"


def _next_position(fence: int, carried: Position | None, end: Position, era: int) -> Position:
    """Rule 3: where the order goes on, or begins anew."""
    if era > fence + AHEAD_MAX:
        era = 0
    if carried is not None and carried >= end and carried.era >= era:
        return carried
    return Position(max(fence, end.era + 1, era + 1))


def _carried(got: BatonGot) -> Position | None:
    try:
        carried = msgspec.msgpack.decode(got.value, type=TopicHead)
    except (msgspec.MsgspecError, ValueError):
        return None
    sound = 0 < carried.era < SAFE and 0 <= carried.number < NUMBERS_MAX
    if sound and carried.made == got.made:
        return Position(carried.era, carried.number)
    return None
