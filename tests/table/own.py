"""What a cell's program holds: a cluster by one of the faces, its queue, and the account of both.

`Own` hides which face it is and where the queues are; so a recipe is written once. What it does
beside the call (`fill`, the end of the account) goes by a second, blocking cluster: the `judge`.
"""

import itertools
import time
import weakref
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import snowmelt
import snowmelt.aio
from snowmelt.core.errors import SnowmeltError
from table.account import Account, Books, expect, text_of
from table.faces import Row

LEASE = 2.0
SHORT = 1.0
"""Of what is extended: the recipe waits for longer."""


class Place:
    """Where queues are: on nodes, or in folders below one."""

    def __init__(self, url: str, folder: str) -> None:
        self.url, self.folder = url, folder
        self._judge: Any = None

    def open(self, row: Row, name: str, face: Any = snowmelt) -> Any:
        """A cluster for a cell."""
        if row.kind == "folder":
            return face.open(f"{self.folder}/{name}")
        return face.connect(self.url)

    @property
    def judge(self) -> Any:
        """A cluster that nothing happens to."""
        if self._judge is None:
            self._judge = snowmelt.connect(self.url)
        return self._judge


class Own:
    """One cell's queue, baton, counter or topic, and what was told of it."""

    def __init__(
        self,
        place: Place,
        row: Row,
        name: str,
        face: Any = snowmelt,
        account: Any = None,
        first: int = 1,
    ) -> None:
        self.place, self.row, self.name, self.face = place, row, name, face
        self.account = account or Account()
        self.cluster = place.open(row, name, face)
        self.judge = self.cluster if row.kind == "folder" and face is snowmelt else place.judge
        self.folder = f"{place.folder}/{name}"
        self.seconds: float | None = None
        """What is given to the call as its timeout, when it takes one."""
        self.numbers = itertools.count(first)
        self.pad, self.bound = 0, 0
        """How large bodies are at least; how many a queue may hold, if that is bounded."""
        self.beside: list[Own] = []
        """Others of the same thing, whose parts keep some of it."""
        self.leaving: list[Any] = []
        """Parts of a pool that were told to leave, and may not have left."""
        self.held: weakref.ref[Any] | None = None
        self._made: dict[str, Any] = {}
        if row.kind == "pool":
            self.fill()  # who puts is one of those who take over what others leave

    def __repr__(self) -> str:
        return f"Own({self.row})"

    # --- what it holds --------------------------------------------------------------------------

    def queue_of(self, cluster: Any, **more: Any) -> Any:
        """The queue of this cell, as one of the two clusters has it."""
        lease = SHORT if self.row.call.endswith("extend") else LEASE
        options = {"lease": lease, "max_deliveries": 1000, **more}
        if self.bound:
            options["max_items"] = self.bound
        match self.row.kind:
            case "priority":
                return cluster.priority(self.name, **options)
            case "pool":
                return cluster.pool(self.name, lease=LEASE, grace=0.5, buffers=self.bound or 1000)
            case _:
                return cluster.fifo(self.name, **options)

    def _once(self, what: str, make: Any) -> Any:
        if what not in self._made:
            self._made[what] = make()
        return self._made[what]

    @property
    def queue(self) -> Any:
        """By the face that is tried."""
        return self._once("queue", lambda: self.queue_of(self.cluster))

    @property
    def judged(self) -> Any:
        """By the judge."""
        return self._once("judged", lambda: self.queue_of(self.judge))

    @property
    def baton(self) -> Any:
        return self._once("baton", lambda: self.cluster.baton(self.name, timeout=5))

    @property
    def counter(self) -> Any:
        return self._once("counter", lambda: self.cluster.counter(self.name, timeout=5))

    @property
    def topic(self) -> Any:
        """By the face; the judge listens from before the first message."""
        self._once("heard", lambda: self.judge.multicast(self.name).subscribe(timeout=0.3))
        return self._once("topic", lambda: self.cluster.multicast(self.name))

    # --- what is done beside the call ------------------------------------------------------------

    def new(self) -> bytes:
        """A body that nobody else has."""
        body = f"{self.name}/{next(self.numbers)}".encode().ljust(self.pad, b".")
        self.account.tell("tried", body)
        return body

    def fill(self, count: int = 1) -> list[bytes]:
        """The judge puts some, plainly."""
        bodies = [self.new() for _ in range(count)]
        for body in bodies:
            self.judged.put(body)
        self.account.tell("kept", *bodies)
        return bodies

    def group(self) -> str:
        """The name of a group that nobody else has; in the end it is released."""
        name = f"group-{next(self.numbers)}"
        self.account.tell("group", name)
        return name

    @contextmanager
    def puts(self, *bodies: bytes) -> Iterator[None]:
        """They are put within."""
        try:
            yield
        except SnowmeltError as error:
            if error.definite:
                self.account.tell("refused", *bodies)
            raise
        self.account.tell("kept", *bodies)

    def came(self, *things: Any) -> list[bytes]:
        """These were got."""
        bodies = [bytes(one.body) for one in things]
        self.account.tell("came", *bodies)
        return bodies

    @contextmanager
    def takes_off(self, bodies: list[bytes]) -> Iterator[None]:
        """They are done, or erased, within."""
        self.account.tell("doing", *bodies)
        yield
        self.account.tell("done", *bodies)

    def turn(self, held: Any) -> int:
        """The baton came: it is newer than all before, and its value is the newest told."""
        expect(held.fence > max(self.account.numbers("fence"), default=-1), "fences grow")
        self.account.tell("fence", held.fence)
        self.held = weakref.ref(held)
        value = int(bytes(held.value) or b"0")
        passed = max(self.account.numbers("passed"), default=0)
        expect(value >= passed, "the value is older than one that was passed on: {}", value)
        return value + 1

    # --- one word for both faces -----------------------------------------------------------------

    def within(self, thing: Any, use: Any = lambda one: one) -> Any:
        """`with thing as one: return one`, or `async with`; or what is made of it there."""
        if hasattr(thing, "__aenter__"):

            async def enter() -> Any:
                async with thing as one:
                    return use(one)

            return enter()
        with thing as one:
            return use(one)

    def following(self, loop: Any) -> Any:
        """The next of a loop."""
        if not hasattr(loop, "__next__"):
            return anext(loop)
        try:
            return next(loop)
        except StopIteration:
            raise snowmelt.Empty("the loop is over") from None

    # --- the end ---------------------------------------------------------------------------------

    def close(self) -> Any:
        """Everything that the cell held goes."""
        heard = self._made.pop("heard", None)
        if heard is not None:
            heard.close()
        judged = self._made.pop("judged", None)
        self._made.clear()
        try:
            return self.cluster.close()  # what is kept there goes to the judge
        finally:
            if judged is not None and self.row.kind == "pool" and self.face is snowmelt:
                with suppress(SnowmeltError):
                    judged.close(timeout=0.1)

    def check(self) -> None:
        """The account is right; what is left is taken off."""
        words = {word for word, _ in self.account.words}
        if {"fence", "passed"} & words:
            self._check_turns()
        if "number" in words:
            numbers = self.account.numbers("number")
            expect(len(set(numbers)) == len(numbers), "a number came twice: {}", sorted(numbers))
        if "said" in words:
            self._check_heard()
        if "tried" in words and "heard" not in self._made:
            Books(self.account, self.rest()).check()

    def _check_turns(self) -> None:
        with self.judge.baton(self.name, timeout=8) as held:
            self.turn(held)

    def _check_heard(self) -> None:
        listener = self._made["heard"]
        heard = [text_of(message.body) for message in listener]
        expect(len(set(heard)) == len(heard), "a message came twice: {}", heard)
        missing = set(self.account.all("said")) - set(heard)
        expect(listener.missed or not missing, "{} was published, and never heard", missing)

    def rest(self) -> list[str]:
        """All that is left in the queue, when nobody holds anything any more."""
        found, queue, end = [], self.judged, time.monotonic() + 4 * LEASE
        for name in self.account.all("group"):
            with suppress(snowmelt.NoSuchQueue):
                queue.group(name).release()
        while self._waits(queue):
            if time.monotonic() > end:
                raise AssertionError("something is held, and it does not end")
            try:
                with queue.get(timeout=0.05) as item:
                    body = text_of(item.body)
                found.append(body)
                end = time.monotonic() + 4 * LEASE
            except (snowmelt.Empty, snowmelt.LeaseLost, snowmelt.OutcomeUnknown):
                continue
        return found

    def _waits(self, queue: Any) -> bool:
        """Whether something is there, or with somebody."""
        try:
            if self.row.kind == "pool":
                mine = [self, *self.beside] if self.face is snowmelt else []
                parts = [queue, *(part for one in mine for part in (one.judged, one.queue))]
                parts += self.leaving if mine else []
                return any(told.stock + told.on_loan for told in map(described, parts) if told)
            told = queue.stats()
            return bool(told.ready + told.leased)
        except snowmelt.NoSuchQueue:
            return False


def described(part: Any) -> Any:
    """How a part of a pool is; nothing of one that is closed."""
    with suppress(snowmelt.Closed):
        return part.stats()
    return None


def awaits(thing: Any) -> bool:
    """Whether it must be awaited."""
    return isinstance(thing, Awaitable)
