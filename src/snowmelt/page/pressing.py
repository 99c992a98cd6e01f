"""What the page's buttons do: the calls of the command line, by the rights of the link's user.

1. A press is asked at the node's door first, like any call of that user: what the user may not do
   is refused and written to the audit log, and what is done is written there too.
2. A press has a number that its page drew. The same number of one browser is the same press: it is
   done once, and told the same again. So a button that is pressed twice does what it says once.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, assert_never

import msgspec

from snowmelt.client.connection.steps import Steps, run_async
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.priority.steps import RankedSteps
from snowmelt.client.queue.one_item import change
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.errors import AccessDenied, SnowmeltError
from snowmelt.core.users import User
from snowmelt.page.port import NodePort
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import Pause, Purge, Redrive
from snowmelt.protocols.queue.api.statuses import ChangeItem, Place
from snowmelt.wire.greeting import as_error

SECONDS: Final = 10.0
REMEMBERED: Final = 1_000
NO_USER: Final = (
    "these buttons are for who came by a link of a user: snowmelt page HOST:PORT --token-file FILE "
    "--user NAME"
)


class Press(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A button that was pressed; what it says, as JSON."""

    what: Literal["pause", "resume", "bring_back", "drop", "bring_back_all", "drop_all"]
    queue: Annotated[str, msgspec.Meta(max_length=300)]
    """A queue; for one item of several partitions, its partition."""
    once: Annotated[str, msgspec.Meta(min_length=8, max_length=64)]
    """Rule 2."""
    position: Place = 0
    """Of one item, with its priority where these are numbered."""
    priority: float | None = None
    ranked: bool = False


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
            told = self._allow(user, _call_of(press), origin)
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


def _call_of(press: Press) -> Pause | Redrive | Purge | ChangeItem:
    """The call by whose right it is done."""
    match press.what:
        case "pause" | "resume":
            return Pause(press.queue, press.what == "pause")
        case "bring_back_all":
            return Redrive(press.queue)
        case "drop_all":
            return Purge(press.queue, dead=True)
        case "bring_back" | "drop":
            return ChangeItem(press.queue, press.position, press.what == "drop")
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
        case "bring_back" | "drop":
            rank = None if press.priority is None else _whole(press.priority)
            where, drop, wait = press.position, press.what == "drop", Wait(SECONDS)
            return int((yield from change(steps, where, rank, wait, drop=drop)))
        case _:
            assert_never(press.what)


def _whole(priority: float) -> float:
    return int(priority) if priority.is_integer() else priority
