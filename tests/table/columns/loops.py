"""Event loops: tasks that are cancelled, and a second loop."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import snowmelt.aio
from snowmelt.core.errors import SnowmeltError
from table.account import Wrong, expect
from table.bench import STILL, Bench, failure
from table.columns import Column, Failures
from table.faces import Row, is_awaited
from table.own import Own, awaits
from table.recipes import GIVEN, RECIPES, Act, drive_async


def driven(bench: Bench, rows: list[Row], cell: Callable[[Own], Any]) -> Failures:
    """Cells of the face with `await`; the account is taken when their loop is over."""
    tried, owns = [], []
    for row in rows:
        own = bench.own(row, snowmelt.aio)
        owns.append(own)
        tried.append(failure(lambda own=own: cell(own)))
    return bench.checked_async(owns, tried)


class Cancelling:
    """Cancels the task that awaits it, at one of its awaits."""

    def __init__(self, awaited: Any, at: int) -> None:
        self._awaited, self._at = awaited, at
        self.done = False
        """Whether it was cancelled."""

    def __await__(self) -> Any:
        steps = self._awaited.__await__()
        answer, error = None, None
        while True:
            try:
                future = steps.throw(error) if error else steps.send(answer)
            except StopIteration as over:
                return over.value
            self._at -= 1
            if self._at == 0:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                self.done = True
            answer, error = None, None
            try:
                answer = yield future
            except BaseException as raised:
                error = raised


def cancelled(bench: Bench, rows: list[Row]) -> Failures:
    """At each await of the call, one after the other."""

    async def once(own: Own, at: int) -> bool:
        """Whether there were so many awaits."""
        cancelling: list[Cancelling] = []

        def around(act: Act) -> Any:
            def begun() -> Any:
                answer = act()
                if not awaits(answer):
                    return answer
                cancelling.append(Cancelling(answer, at))
                return _whole(cancelling[-1])

            return bench.call(Act(begun))

        try:
            await asyncio.create_task(drive_async(own, around))
        except asyncio.CancelledError:
            return True
        if cancelling and cancelling[0].done:
            raise Wrong(f"it was cancelled at await {at}, and went on")
        return False

    async def all_of_them(own: Own) -> None:
        at = 1
        while at < (200 if bench.long else 12) and await once(own, at):
            await asyncio.sleep(0.01)
            gc.collect()  # what an exception has seen is dropped when it is
            at += 1
        try:
            await asyncio.wait_for(drive_async(own), 8)
        except SnowmeltError as error:
            raise Wrong(f"the next call: {error!r}") from error
        finally:
            await closed(own)

    def cell(own: Own) -> None:
        with asyncio.Runner() as runner:
            runner.run(asyncio.wait_for(all_of_them(own), STILL))

    return driven(bench, rows, cell)


async def _whole(cancelling: Cancelling) -> Any:
    return await cancelling


async def closed(own: Own) -> None:
    """The cluster goes with its loop; the account is the judge's."""
    await own.cluster.close()


def two_loops(bench: Bench, rows: list[Row]) -> Failures:
    """What is of one loop is used in another: refused, or as good there."""

    def elsewhere(act: Act, may: bool) -> Any:
        """The call, in a loop of another thread: its answer, or `REFUSED`."""

        async def call() -> Any:
            answer = bench.call(act)
            return await answer if awaits(answer) else answer

        with bench.hit():
            try:
                answer = asyncio.run(asyncio.wait_for(call(), 5))
            except (SnowmeltError, StopAsyncIteration):
                return REFUSED
        expect(may, "what is of one loop was used in another")
        return answer

    async def given(own: Own) -> None:
        """What was given to this loop is tried there, and used here."""
        shared = own.row.kind == "pool"  # which has a thread for all loops
        may = shared or "local" in RECIPES[own.row].words or own.row.call in LEFT

        def around(act: Act) -> Any:
            async def both() -> Any:
                there = await asyncio.to_thread(elsewhere, act, may)
                answer = there if shared and there is not REFUSED else act()
                return await answer if awaits(answer) else answer

            return both()

        await drive_async(own, around)

    async def made(own: Own) -> None:
        """What was made in this loop is used there."""

        def there() -> None:
            with suppress(SnowmeltError), bench.hit():
                asyncio.run(asyncio.wait_for(drive_async(own, bench.call), 10))

        await asyncio.to_thread(there)

    async def whole(own: Own) -> None:
        await drive_async(own)
        await (given if own.row.call.partition(".")[0] in GIVEN else made)(own)
        try:
            await asyncio.wait_for(drive_async(own), 10)
        except SnowmeltError as error:
            raise Wrong(f"the next call in the first loop: {error!r}") from error
        finally:
            await closed(own)

    def cell(own: Own) -> None:
        with asyncio.Runner() as runner:
            runner.run(asyncio.wait_for(whole(own), STILL))

    return driven(bench, rows, cell)


REFUSED = object()
LEFT = {"loop.close", "loop.with"}
"""They end something, and it is ended."""


AT_ONCE = {"Object.nack", "Objects.nack", "loop.with", "loop.close", "Pool.stats"}


def no_await(row: Row) -> str:
    at_once = (row.kind == "pool" and row.call in AT_ONCE) or row.call == "Subscription.with"
    if at_once:
        return "it is done without waiting for anything"
    return "" if is_awaited(row) else "it awaits nothing"


def no_judge(row: Row) -> str:
    """What has no recipe with `await` yet."""
    if row.kind == "folder":
        return "a folder is open once, so its face with `await` has no judge beside it"
    return ""


COLUMNS = [
    Column("task cancelled", "Its task is cancelled at each await; the cancellation comes out, "
           "and the account is right.", cancelled, ("swallows",), no_await, untried=no_judge),
    Column("two loops", "A handle of one event loop is used in another: refused, or as good "
           "there; in the first it works on.", two_loops, ("forgets", "crashes"),
           untried=no_judge),
]  # fmt: skip
