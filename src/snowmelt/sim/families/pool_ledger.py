"""What the programs of a pool saw, and what of it may never be.

Everything is judged from outside: from what a program asked of its own part, from the answers, and
from the times of both. What no program is promised is no fault, and only that is left out:

1. A producer that dies takes with it what is not on its disk. So does one that leaves and says how
   many it could not hand over, and one that took over what another had handed over.
2. An object that a consumer said is done is done, whether anybody confirmed it or not.
3. What is delivered at most once may be lost; and where one consumer of a pool asks for that, any
   object may have been on its way to it.
4. Who gives an object back wants it to go to another, however often it was to be delivered.
"""

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.calls import Got, Kept, PeerStatistics
from snowmelt.protocols.pool.settings import Delivery, PoolSettings
from snowmelt.sim.world import Broken


class Part(msgspec.Struct, eq=False):
    """One life of one process, as the ledger knows it."""

    name: str
    node: NodeId
    settings: PoolSettings
    leaves_at: Instant | None = None
    """When it began to leave in order."""
    ended_at: Instant | None = None
    left: int | None = None
    """How many objects nobody took, when it has said so before its end."""
    put: int = 0
    """How many objects its program came with."""

    @property
    def once(self) -> bool:
        """Whether it wants everything at most once."""
        return self.settings.delivery is Delivery.AT_MOST_ONCE

    @property
    def lost_objects(self) -> bool:
        """Whether objects may have ended with it."""
        return self.ended_at is not None and self.left != 0 and not self.settings.spill


class Handed(msgspec.Struct, eq=False):
    """What one get brought."""

    to: Part
    got: Got
    called: Instant
    at: Instant
    values: dict[int, str]
    """By the objects' numbers."""
    back: dict[str, None] = {}
    """What its program gave back."""


class Object(msgspec.Struct, eq=False):
    """One object, from the put on."""

    value: str
    home: Part
    kept: bool | None = None
    """Whether it is in the pool; None while nobody knows."""
    deliveries: list[Handed] = []
    done: bool = False
    """Whether a program that got it has said that it is done."""
    confirmed: Handed | None = None
    confirmed_at: Instant = Instant(0)


class Ledger:
    """One pool, as its programs know it."""

    def __init__(self) -> None:
        self.calm = False
        """Whether nothing ever goes wrong: then nothing comes twice that was not given back."""
        self.parts: list[Part] = []
        self.hurt: dict[NodeId, None] = {}
        """On whose disk a record was damaged."""
        self._objects: dict[str, Object] = {}

    def began(self, part: Part) -> None:
        """A process is in the pool."""
        self.parts.append(part)

    # --- objects in -------------------------------------------------------------------------------

    def putting(self, home: Part, values: tuple[str, ...]) -> None:
        """A program puts these."""
        home.put += len(values)
        for value in values:
            self._objects[value] = Object(value, home)

    def kept(self, home: Part, values: tuple[str, ...], answer: Kept) -> None:
        """The first of them are in the pool, and the others never will be."""
        if not 0 <= answer.count <= len(values):
            raise Broken(f"{home.name} put {len(values)}, and {answer.count} are kept", home.node)
        for place, value in enumerate(values):
            one = self._objects[value]
            one.kept = place < answer.count
            if one.deliveries and not one.kept:
                raise Broken(f"{value} was delivered, and never kept", home.node)

    def refused(self, values: tuple[str, ...]) -> None:
        """None of them is in the pool."""
        for value in values:
            self._objects[value].kept = False

    # --- objects out ------------------------------------------------------------------------------

    def got(self, to: Part, got: Got, called: Instant, at: Instant) -> Handed:
        """A get brought objects."""
        bodies: list[str] = []
        rest = memoryview(got.blob)
        for span in got.spans:
            batch = Batch(span.offsets, rest[: span.size])
            bodies += [bytes(body).decode(errors="replace") for body in batch]
            rest = rest[span.size :]
        numbers = [number for span in got.spans for number in span.interval]
        if len(rest) or not bodies or len(numbers) != len(bodies):
            raise Broken(f"{to.name} got what does not add up", to.node)
        handed = Handed(to, got, called, at, dict(zip(numbers, bodies, strict=True)), {})
        if len(handed.values) != len(bodies) or len(set(bodies)) != len(bodies):
            raise Broken(f"{to.name} got one object twice in one answer", to.node)
        for value in bodies:
            self._judge(value, handed)
        return handed

    def _judge(self, value: str, handed: Handed) -> None:
        node = handed.to.node
        one = self._objects.get(value)
        if one is None:
            raise Broken(f"{value!r} was never put", node)
        if one.kept is False:
            raise Broken(f"{value} is delivered, and was not kept", node)
        if one.confirmed is not None and handed.called > one.confirmed_at:
            by = one.confirmed.to.name
            raise Broken(f"{value} was acknowledged by {by}, and comes to {handed.to.name}", node)
        if self.calm and one.deliveries and value not in one.deliveries[-1].back:
            names = f"{one.deliveries[-1].to.name}, and comes to {handed.to.name}"
            raise Broken(f"nothing went wrong, and {value} is with {names}", node)
        for other in one.deliveries:
            if value not in other.back and self._must_be_last(one, other, handed):
                names = f"{other.to.name}, and comes to {handed.to.name}"
                raise Broken(f"{value} was delivered at most once to {names}", node)
        one.deliveries.append(handed)

    def _must_be_last(self, one: Object, first: Handed, second: Handed) -> bool:
        """Whether the first of two deliveries excludes the other."""
        heirs_may_differ = one.home.leaves_at is not None
        if one.home.once and not heirs_may_differ:
            return True
        # What is on a disk comes again when its producer dies before it has heard of the end.
        spilled = any(part.settings.spill and part.ended_at is not None for part in self.parts)
        return first.to.once and second.called > first.at and not spilled

    def gave_back(self, handed: Handed, values: tuple[str, ...]) -> None:
        """From now on these may come to another."""
        handed.back.update(dict.fromkeys(values))

    def done(self, values: tuple[str, ...]) -> None:
        """A program says that these are done; whether anybody heard it is another matter."""
        for value in values:
            self._objects[value].done = True

    def confirmed(self, handed: Handed, values: tuple[str, ...], at: Instant) -> None:
        """Their producer has forgotten these."""
        for value in values:
            one = self._objects[value]
            before = one.confirmed
            if before is not None and before is not handed:
                names = f"{before.to.name} and of {handed.to.name}"
                raise Broken(f"{value}: the end is confirmed of {names}", handed.to.node)
            if before is None:
                one.confirmed, one.confirmed_at = handed, at

    # --- bounds -----------------------------------------------------------------------------------

    def described(self, part: Part, told: PeerStatistics) -> None:
        """What is above the bounds came back, was taken over, or was found on the disk."""
        settings = part.settings
        if settings.spill or any(one.leaves_at is not None for one in self.parts):
            return
        above = told.stock - settings.buffers - told.given_back - told.expired
        if above > 0:
            text = f"{part.name} has {told.stock} objects, and may have {settings.buffers}"
            raise Broken(text, part.node)

    # --- at the end -------------------------------------------------------------------------------

    def judge(self) -> None:
        """Whatever was kept, and could not be lost, is done."""
        if any(part.once for part in self.parts):
            return
        for one in self._objects.values():
            if one.kept and not one.done and not self._may_be_lost(one):
                seen = ", ".join(handed.to.name for handed in one.deliveries)
                raise Broken(f"{one.value} is lost; it was with {seen or 'nobody'}", one.home.node)

    def _may_be_lost(self, one: Object) -> bool:
        home = one.home
        if home.settings.spill:
            return home.node in self.hurt
        if home.leaves_at is None or home.lost_objects:
            return home.ended_at is not None
        heirs = [part for part in self.parts if part.ended_at and part.ended_at >= home.leaves_at]
        return bool(self.hurt) or any(part.lost_objects for part in heirs)
