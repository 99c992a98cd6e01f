"""What the page's buttons do: the calls of the command line, by the rights of the link's user.

1. A press is asked at the node's door first, like any call of that user: what the user may not do
   is refused and written to the audit log, and what is done is written there too.
2. A press has a number that its page drew. The same number of one browser is the same press: it is
   done once, and told the same again. So a button that is pressed twice does what it says once.
3. A move is a put and a drop: a failure between leaves the item in both queues.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, Literal, assert_never

import msgspec

from snowmelt.client.connection.steps import Query, Steps, run_async
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.priority.steps import RankedSteps
from snowmelt.client.queue.one_item import change, put_again, read_one
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.errors import AccessDenied, SnowmeltError
from snowmelt.core.users import User
from snowmelt.page.port import NodePort
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import Open, Opened, Pause, Purge, Put, Redrive
from snowmelt.protocols.queue.api.statuses import ChangeItem, Place, ShowItem
from snowmelt.wire.greeting import as_error

SECONDS: Final = 10.0
REMEMBERED: Final = 1_000
NO_USER: Final = (
    "these buttons are for who came by a link of a user: snowmelt page HOST:PORT --token-file FILE "
    "--user NAME"
)


class Press(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A button that was pressed; what it says, as JSON."""

    what: Literal["pause", "resume", "bring_back", "drop", "move", "bring_back_all", "drop_all"]
    queue: Annotated[str, msgspec.Meta(max_length=300)]
    """A queue; for one item of several partitions, its partition."""
    once: Annotated[str, msgspec.Meta(min_length=8, max_length=64)]
    """Rule 2."""
    position: Place = 0
    """Of one item, with its priority where these are numbered."""
    priority: float | None = None
    ranked: bool = False
    dead: bool = False
    """Of one item: its row was among the dead, and nothing is done to it unless it is so still."""
    to: Annotated[str, msgspec.Meta(max_length=300)] = ""
    """The queue into which one item is moved."""


class Presses:
    """Of all browsers of one node."""

    def __init__(self, port: NodePort, allow: Callable[[User, Any, str], Any]) -> None:
        self._port = port
        self._allow = allow
        self._done: OrderedDict[tuple[str, str], asyncio.Task[int]] = OrderedDict()

    async def press(self, browser: str, user: User | None, origin: str, press: Press) -> int:
        """Does it, unless it is done already; how many items it was done to."""
        named = browser, press.once
        if named not in self._done:
            if user is None:
                raise AccessDenied(NO_USER)
            for call in _calls_of(press):
                told = self._allow(user, call, origin)
                if type(told) is Declined:
                    raise as_error(told.error, told.text)
            work = run_async(self._port, _steps_of(press))
            task = self._done[named] = asyncio.ensure_future(work)
            task.add_done_callback(_looked_at)
            while len(self._done) > REMEMBERED:
                self._done.popitem(last=False)
        try:
            return await asyncio.shield(self._done[named])
        except SnowmeltError:
            self._done.pop(named, None)  # it may be pressed again
            raise


def _looked_at(task: asyncio.Task[int]) -> None:
    """What came of it is known, also where its browser has gone."""
    if not task.cancelled():
        task.exception()


def steps_of(queue: str, *, ranked: bool) -> FifoSteps:
    """A queue, or a partition, that is there."""
    return (RankedSteps if ranked else FifoSteps)(queue, None, ProducerSequence())


def _calls_of(press: Press) -> Iterator[Pause | Redrive | Purge | ChangeItem | ShowItem | Put]:
    """The calls by whose rights it is done."""
    match press.what:
        case "pause" | "resume":
            yield Pause(press.queue, press.what == "pause")
        case "bring_back_all":
            yield Redrive(press.queue)
        case "drop_all":
            yield Purge(press.queue, dead=True)
        case "move":
            yield ShowItem(press.queue, press.position)
            yield Put(press.to, "", 0, b"", b"")
            yield ChangeItem(press.queue, press.position, drop=True)
        case "bring_back" | "drop":
            yield ChangeItem(press.queue, press.position, press.what == "drop")
        case _:
            assert_never(press.what)


def _steps_of(press: Press) -> Steps[int]:
    steps = steps_of(press.queue, ranked=press.ranked)
    match press.what:
        case "pause" | "resume":
            yield from steps.pause(press.what == "pause", SECONDS)
            return 0
        case "bring_back_all":
            return (yield from steps.redrive(0, SECONDS))
        case "drop_all":
            return (yield from steps.purge(dead=True, leased=False, timeout=SECONDS))
        case "bring_back" | "drop" | "move":
            rank = None if press.priority is None else _whole(press.priority)
            where, drop, wait = press.position, press.what != "bring_back", Wait(SECONDS)
            if press.what == "move":
                seen = yield from read_one(steps, where, rank, wait)
                there = yield from _found(press.to, wait)
                yield from put_again(there, seen, wait, steps)
            done = yield from change(steps, where, rank, wait, drop=drop, dead=press.dead)
            return int(done)
        case _:
            assert_never(press.what)


def _found(queue: str, wait: Wait) -> Steps[FifoSteps]:
    """A queue to put into; it must be there, since a name that was mistyped makes none."""
    opened: Opened = yield Query(Open(queue, make=False), wait.left)
    steps = steps_of(queue, ranked=opened.settings.priorities != 1)
    yield from steps.partitions(wait.left)
    return steps


def _whole(priority: float) -> float:
    return int(priority) if priority.is_integer() else priority
