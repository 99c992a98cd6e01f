"""What the programs of a pool saw, and what of it may never be.

Everything is judged from outside: from what a program asked of its own part, from the answers, and
from the times of both; and from what processes sent each other, so that it is known where an object
may have been. An object that a consumer said is done is done, whether anybody confirmed it or not;
and who gives one back wants it to go to another, however often it was to be delivered. What of the
rest may be lost is in `pool_excuses.py`.
"""

from collections.abc import Sequence

import msgspec

from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.instant import Duration, Instant, later, spelled
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.calls import Got, PeerStatistics, PoolReceipt
from snowmelt.protocols.pool.messages import ObjectsLent, ObjectSpan, Request
from snowmelt.protocols.pool.settings import Delivery, PoolSettings
from snowmelt_world.families.pool_excuses import AllowedLosses
from snowmelt_world.families.pool_load import LARGE
from snowmelt_world.world import Broken


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
    adopted: int = 0
    """How many came from those who left."""
    sent_large: Instant = Instant(0)
    """When it was last sent something large, which may be long on its way."""

    @property
    def once(self) -> bool:
        """Whether it wants everything at most once."""
        return self.settings.delivery is Delivery.AT_MOST_ONCE

    @property
    def lost_objects(self) -> bool:
        """Whether objects may have ended with it."""
        return self.ended_at is not None and self.left != 0 and not self.settings.spill


class Handed(msgspec.Struct, eq=False):
    to: Part
    got: Got
    called: Instant
    at: Instant
    values: dict[int, str]
    """By the objects' numbers."""
    back: dict[str, Instant] = {}
    """What went back, and when."""
    settled: dict[int, None] = {}
    """The numbers of those that are acknowledged, or went back."""
    let_go: dict[str, None] = {}
    """What its program dropped."""
    finished: dict[str, None] = {}
    """What its program has said to be done."""


class Giving(msgspec.Struct, eq=False):
    by: Part
    to: Part
    at: Instant
    leaving: bool
    """Whether its sender was leaving, so that it may be the other's own from then on."""
    large: bool
    """Whether it may be long on its way."""
    asked_before: bool
    """Whether an earlier life of the other asked for it, and wanted everything at most once."""

    def __str__(self) -> str:
        return f"{self.to.name} at {spelled(self.at)}" + " (at most once)" * self.once

    @property
    def once(self) -> bool:
        """Whether it is gone once it is sent."""
        return self.by.once or self.to.once or self.asked_before


class Object(msgspec.Struct, eq=False):
    value: str
    home: Part
    kept: bool | None = None
    """Whether it is in the pool; None while nobody knows."""
    kept_at: Instant = Instant(0)
    givings: list[Giving] = []
    deliveries: list[Handed] = []
    done: bool = False
    """Whether a program that got it has said that it is done."""
    confirmed: Handed | None = None
    confirmed_at: Instant = Instant(0)

    def back_from(self, to: Part) -> list[Instant]:
        return [
            one.back[self.value]
            for one in self.deliveries
            if one.to is to and self.value in one.back
        ]


class Ledger:
    """One pool, as its programs know it."""

    def __init__(self, excuses: AllowedLosses) -> None:
        self.excuses = excuses
        self.calls = 0
        """How many objects were put, got and confirmed as done."""
        self.excused: dict[str, int] = {}
        self.calm = False
        """Whether nothing ever goes wrong: then nothing comes twice that was not given back."""
        self.parts: list[Part] = []
        self.hurt: dict[NodeId, None] = {}
        """On whose disk a record was damaged."""
        self._objects: dict[str, Object] = {}
        self._asked_once: dict[tuple[NodeId, int], None] = {}

    def began(self, part: Part) -> None:
        self.parts.append(part)

    # --- objects in -------------------------------------------------------------------------------

    def putting(self, home: Part, values: tuple[str, ...]) -> None:
        home.put += len(values)
        for value in values:
            self._objects[value] = Object(value, home)

    def put_ahead(self, home: Part, values: tuple[str, ...], at: Instant) -> None:
        """These are in the pool, as a program believes that is not asked to wait."""
        self.putting(home, values)
        self.kept(home, values, PoolReceipt(len(values), Interval(0, len(values))), at)

    def kept(self, home: Part, values: tuple[str, ...], answer: PoolReceipt, at: Instant) -> None:
        """The first of them are in the pool, and the others never will be."""
        self.calls += answer.count
        if not 0 <= answer.count <= len(values):
            raise Broken(f"{home.name} put {len(values)}, and {answer.count} are kept", home.node)
        for place, value in enumerate(values):
            one = self._objects[value]
            one.kept, one.kept_at = place < answer.count, at
            if one.deliveries and not one.kept:
                raise Broken(f"{value} was delivered, and never kept", home.node)

    def refused(self, values: tuple[str, ...]) -> None:
        for value in values:
            one = self._objects[value]
            if one.kept or one.deliveries:
                raise Broken(f"{value} is in the pool, and was said to be refused", one.home.node)
            one.kept = False

    def keeps(self, values: Sequence[str]) -> bool:
        """Whether all of them were told to be in the pool."""
        return all(self._objects[value].kept for value in values)

    def asks(self, request: Request) -> None:
        """A process asks for objects, or passes on that another does."""
        if request.once:
            self._asked_once[request.consumer, request.number] = None

    def gives(self, by: Part, to: Part, found: ObjectsLent, at: Instant) -> None:
        leaving = by.leaves_at is not None
        large = len(found.blob) >= LARGE
        before = not to.once and (to.node, found.number) in self._asked_once
        to.sent_large = at if large else to.sent_large
        for value in bodies_of(found.spans, found.blob):
            one = self._objects.get(value)
            if one is not None:
                one.givings.append(Giving(by, to, at, leaving, large, before))
            to.adopted += leaving

    def idle_since(self, before: Instant, slow: Duration) -> Object | None:
        """An object that was kept before then, and that nobody has got yet.

        Its producer is not full of one that is on its way, which takes up to `slow` if it is large.
        """
        for one in self._objects.values():
            came = [later(giving.at, slow) for giving in one.givings if giving.large]
            waits = one.kept and max(one.kept_at, *came, Instant(0)) < before and not one.deliveries
            if waits and one.home.ended_at is None:
                return one
        return None

    def has_since(self, home: Part) -> Instant | None:
        """Since when it has an object that it gave to nobody; None when it has none."""
        mine = [one for one in self._objects.values() if one.home is home]
        return min((one.kept_at for one in mine if one.kept and not one.givings), default=None)

    # --- objects out ------------------------------------------------------------------------------

    def got(self, to: Part, got: Got, called: Instant, at: Instant) -> Handed:
        bodies = bodies_of(got.spans, got.blob)
        self.calls += len(bodies)
        numbers = [number for span in got.spans for number in span.interval]
        if not bodies or len(numbers) != len(bodies):
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
        last = one.deliveries[-1] if one.deliveries else None
        if self.calm and last is not None and not (value in last.back or value in last.let_go):
            names = f"{last.to.name}, and comes to {handed.to.name}"
            raise Broken(f"nothing went wrong, and {value} is with {names}", node)
        for other in one.deliveries:
            if value not in other.back and self._must_be_last(one, other, handed):
                names = f"{other.to.name}, and comes to {handed.to.name}"
                raise Broken(f"{value} was delivered at most once to {names}", node)
        one.deliveries.append(handed)
        if handed.got.producer == node:  # of what it gives itself nobody hears
            mine = Giving(handed.to, handed.to, handed.at, False, False, False)
            one.givings.append(mine)

    def _must_be_last(self, one: Object, first: Handed, second: Handed) -> bool:
        """Whether the first of two deliveries excludes the other."""
        heirs_may_differ = one.home.leaves_at is not None
        if one.home.once and not heirs_may_differ:
            return True
        # What is on a disk comes again when its producer dies before it has heard of the end.
        spilled = any(part.settings.spill and part.ended_at is not None for part in self.parts)
        return first.to.once and second.called > first.at and not spilled

    def gave_back(self, handed: Handed, values: tuple[str, ...], at: Instant) -> None:
        """From now on these may come to another."""
        handed.back.update(dict.fromkeys(values, at))

    def dropped(self, handed: Handed, values: tuple[str, ...]) -> None:
        """Nobody has these any more, so their lease ends: at most once, they are gone."""
        handed.let_go.update(dict.fromkeys(values))

    def done(self, values: tuple[str, ...]) -> None:
        """A program says that these are done; whether anybody heard it is another matter."""
        for value in values:
            self._objects[value].done = True

    def confirmed(self, handed: Handed, values: tuple[str, ...], at: Instant) -> None:
        """Their producer has forgotten these."""
        self.calls += len(values)
        for value in values:
            one = self._objects[value]
            before = one.confirmed
            if before is not None and before is not handed:
                names = f"{before.to.name} and of {handed.to.name}"
                raise Broken(f"{value}: the end is confirmed of {names}", handed.to.node)
            if before is None:
                one.confirmed, one.confirmed_at = handed, at

    def is_confirmed(self, handed: Handed, value: str) -> bool:
        """Whether its producer has forgotten what this get brought."""
        return self._objects[value].confirmed is handed

    # --- bounds -----------------------------------------------------------------------------------

    def described(self, part: Part, told: PeerStatistics) -> None:
        """What is above the bounds came back, was taken over, or was found on the disk."""
        settings = part.settings
        if settings.spill:
            return
        above = told.stock - settings.buffers - told.given_back - told.expired - part.adopted
        if above > 0:
            text = f"{part.name} has {told.stock} objects, and may have {settings.buffers}"
            raise Broken(text, part.node)

    # --- at the end -------------------------------------------------------------------------------

    def judge(self) -> None:
        """Whatever was kept, and could not be lost, is done."""
        left: dict[str, int] = {}
        for one in self._objects.values():
            if not one.kept or one.done:
                continue
            reason = self._why_lost(one)
            if reason == "left" and not any(giving.leaving for giving in one.givings):
                left[one.home.name] = left.get(one.home.name, 0) + 1
                if left[one.home.name] > (one.home.left or 0):
                    reason = ""
            if not reason:
                seen = ", ".join(f"{giving}" for giving in one.givings) or "nobody"
                text = f"{one.value.rstrip('.')} is lost; it was sent to {seen}"
                raise Broken(text, one.home.node)
            self.excused[reason] = self.excused.get(reason, 0) + 1

    def _why_lost(self, one: Object) -> str:
        """What excuses it; nothing when nothing does."""
        home = one.home
        if home.settings.spill and home.node in self.hurt:
            return "damaged"
        died = home.ended_at is not None and not home.settings.spill
        if died and home.left is None:
            return "producer died"
        had = [handed.to for handed in one.deliveries if handed.to.ended_at is not None]
        if any(to.once for to in had):
            return "at most once"  # whoever goes with it may have used it
        if any(giving.once and giving.to in had for giving in one.givings):
            return "at most once"
        if any(one.value in handed.let_go for handed in one.deliveries) and _once(one):
            return "dropped, at most once"
        for giving in one.givings:
            to, by = giving.to, giving.by
            if giving.leaving and to.lost_objects:
                return "heir died"
            if giving.leaving and to.settings.spill and to.node in self.hurt:
                return "damaged"
            until = max([giving.at, *one.back_from(to)])  # it may be held, unused, for long
            if giving.once and (
                giving.asked_before
                or self.excuses.ends(to.ended_at, giving.at, until)
                or self.excuses.ends(to.leaves_at, giving.at, until)
                or self.excuses.ends(by.ended_at, giving.at, until)
                or self.excuses.fails(by.node, to.node, giving.at, until)
            ):
                return "at most once"
        return "left" if died and home.left else ""


def _once(one: Object) -> bool:
    """Whether somebody who had it, or made it, wants it at most once."""
    return one.home.once or any(each.to.once for each in one.deliveries)


def bodies_of(spans: Sequence[ObjectSpan], blob: Buffer) -> list[str]:
    """What lies in an answer; nothing when it does not add up."""
    bodies: list[str] = []
    rest = memoryview(blob)
    for span in spans:
        batch = Batch(span.offsets, rest[: span.size])
        bodies += [bytes(body).decode(errors="replace") for body in batch]
        rest = rest[span.size :]
    return [] if len(rest) else bodies
