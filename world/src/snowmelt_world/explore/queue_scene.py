"""What is known of a small world's queue from outside, and what may never be seen of it.

1. *Order.* An item has one place, whoever tells of it. What is put after another was answered has
   a later place. A get passes nothing that was there for certain while it waited: kept, held by
   nobody, and no other get on its way.
2. *Nothing invented, nothing twice.* What comes was put. What was confirmed as done comes to nobody
   who asked after that. Nobody is given what another holds: told, in its time, not given up.
3. *Nothing refused.* Who holds an item may give it back, and end it. No get is told that there is
   nothing while there is something for certain.
4. *Nothing lost.* At rest all copies are the same, on their disks; what they tell is what was kept
   and is not done, and each item's body is beside it.
5. *Answered.* By the horizon all this has come to rest: each call has its answer.
6. *Checked.* After each step the machine's own invariants hold, and a leader's records tell its
   state.

Each put has one item, and a body of its own.
"""

from functools import lru_cache
from typing import Any, Final, NamedTuple

from snowmelt.core.batch import Batch
from snowmelt.core.instant import START, Instant, later
from snowmelt.core.names import NodeId
from snowmelt.core.record import BULK, Record
from snowmelt.protocols.membership import View
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.limits import LIMITS
from snowmelt.protocols.queue.messages.words import Head
from snowmelt.protocols.queue.state.records import restored
from snowmelt.protocols.queue.state.segments import unstored
from snowmelt.protocols.queue.store.copy import COPY, RECORD, kept_in
from snowmelt_world.explore.small import Look
from snowmelt_world.world import Broken

QUEUE: Final = "f"
"""By its name the second node is the first to lead it."""


class User(NamedTuple):
    name: NodeId
    node: NodeId
    rest: tuple[str, ...]
    """What is still to be done."""
    call: Any = None
    """What was asked, and is not answered."""
    number: int = 0
    again: Instant = Instant(0)
    """When it asks again, if it is not answered before."""
    sure: tuple[str, ...] = ()
    """Of a get: what is there for certain, since it asked. Of a put: what was kept by then."""
    over: tuple[str, ...] = ()
    """What was confirmed as done when it asked."""
    got: str = ""
    token: int = 0
    held: Instant = START
    """Until when it holds what it got, for certain; the start when it does not."""


class Thing(NamedTuple):
    """An item, by its body."""

    value: str
    rank: int = 0
    """Its priority, or its key."""
    kept: bool = False
    done: str = ""
    """said, when somebody has said that it is done; confirmed."""
    place: int = -1
    """Where it stands, as soon as that was told."""


class Scene(NamedTuple):
    users: tuple[User, ...]
    things: tuple[Thing, ...] = ()
    views: tuple[View, ...] = ()
    entered: tuple[int, ...] = ()
    """How many of them each node has entered in this life, counted from the first."""
    opened: bool = False

    def with_(self, user: User) -> "Scene":
        users = tuple(user if one.name == user.name else one for one in self.users)
        return self._replace(users=users)

    def thing(self, thing: Thing) -> "Scene":
        things = {one.value: one for one in self.things} | {thing.value: thing}
        return self._replace(things=tuple(things[value] for value in sorted(things)))

    def value(self, value: str) -> Thing:
        return next(one for one in self.things if one.value == value)

    def urgency(self, value: str) -> tuple[int, int]:
        """Of two items the one with the less is to be given first."""
        thing = self.value(value)
        return thing.rank, thing.place


class Copied(NamedTuple):
    """A copy as it lies on a disk."""

    head: Head | None
    records: tuple[tuple[bytes, bytes], ...]
    items: tuple[tuple[int, str], ...]
    """What lives, by its place."""


def free(scene: Scene) -> tuple[str, ...]:
    """What is in the queue for certain: kept, held by nobody, and no get is on its way."""
    if any(isinstance(one.call, calls.Get) for one in scene.users):
        return ()
    had = [one.got for one in scene.users if one.held]
    return tuple(
        one.value for one in scene.things if one.kept and not one.done and one.value not in had
    )


def unsure(scene: Scene, user: User) -> Scene:
    """Somebody gets: of what others wait for, nothing is there for certain any more."""
    for other in scene.users:
        if other.name != user.name and isinstance(other.call, calls.Get):
            scene = scene.with_(other._replace(sure=()))
    return scene


def placed(scene: Scene, user: User, value: str, place: int) -> Scene:
    """Somebody tells where an item stands."""
    thing = scene.value(value)
    for other in scene.things:
        # rule 1
        if (other.place == place) != (other.value == value) and other.place >= 0 <= thing.place:
            raise Broken(f"{value} stands at {place}; {other} before", user.name)
        if other.value in user.sure and isinstance(user.call, calls.Put) and other.place > place:
            raise Broken(f"{value} was put after {other}, and stands at {place}", user.name)
    return scene.thing(thing._replace(place=place))


def leased(scene: Scene, look: Look, user: User, done: User, told: calls.Leased) -> Scene:
    (part,) = told.parts
    (body,) = Batch(part.offsets, part.blob)
    value, name = bytes(body).decode(), user.name
    if value not in [one.value for one in scene.things]:
        raise Broken(f"{name} is given {value}, which nobody put", name)
    scene = placed(scene, user, value, part.start)
    # rule 1
    passed = [one for one in user.sure if scene.urgency(one) < scene.urgency(value)]
    if passed:
        raise Broken(f"{name} is given {value}, and {passed[0]} was there before it", name)
    if value in user.over:  # rule 2
        raise Broken(f"{value} was confirmed as done, and comes to {name}", name)
    for other in scene.users:
        holds = other.got == value and other.held > look.now
        if other.name != name and holds and not isinstance(other.call, calls.Settle):
            raise Broken(f"{name} and {other.name} hold {value} at once", name)
    held = later(look.now, told.lease)
    return scene.with_(done._replace(got=value, token=told.token, held=held))


@lru_cache(maxsize=100_000)
def copied(settings: QueueSettings, disk: tuple[Record, ...]) -> Copied:
    """What a disk has of the queue, and what it lacks."""
    name = QUEUE.encode()
    found = {one.key: one.value for one in disk}
    kept, begin = found.get(COPY + name), RECORD + name + b"\0"
    records = {key[len(begin) :]: found[key] for key in found if key.startswith(begin)}
    batches = restored(settings, records, LIMITS).batches.all()
    items = [
        (one.start, _body(found.get(BULK + name + b"\0" + one.key), one.stop)) for one in batches
    ]
    head = None if kept is None else kept_in(QUEUE, kept).head
    return Copied(head, tuple(records.items()), tuple(items))


def _body(kept: bytes | None, stop: int) -> str:
    """That of a put of one item, which all are here."""
    if kept is None:
        return "no body"
    segment = unstored(kept, stop)
    (body,) = Batch(segment.offsets, segment.blob)
    return bytes(body).decode()
