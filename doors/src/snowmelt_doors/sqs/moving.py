"""Tasks that move messages out of a dead-letter queue: back to where they came from, or elsewhere.

1. A task stands in the registry: what it moves, how fast, how far it is, and which door works on it
   until when. While that time is not over no other door does; then any may, when it next looks.
2. What is moved is put under the number that its position is, and acknowledged then. So a task that
   another door goes on with moves nothing twice.
3. One task of a queue runs at a time. A task that is done, failed or cancelled is remembered, the
   last `KEPT` of each queue.
"""

import asyncio
import secrets
import time
from typing import Any, Final

import msgspec

from snowmelt.aio import Item
from snowmelt.core.errors import Empty, SnowmeltError
from snowmelt_doors.sqs.attributes import QueueRecord, name_in, number_in
from snowmelt_doors.sqs.dead_letters import SOURCE, DeadLetters
from snowmelt_doors.sqs.errors import SqsError, bad_value, missing
from snowmelt_doors.sqs.messages import packed, unpacked
from snowmelt_doors.sqs.queues import Params, SqsCaller, SqsQueues, Told, sources_of

KEY: Final = "t/"
KEPT: Final = 10
RATE_MAX: Final = 500
HELD_SECONDS: Final = 15.0
"""For so long a door has a task without a word about it."""
_AT_ONCE: Final = 50
_WORD_EACH: Final = 2.0
_LOOK_EACH: Final = 5.0
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class MoveTask(msgspec.Struct, frozen=True):
    """A task, as the registry has it."""

    handle: str
    source: str
    """The name of the queue that is emptied."""
    target: str
    """Where to; empty: where each message came from."""
    rate: int
    """So many a second; 0 for as fast as may be."""
    began: int
    """In ms since 1970."""
    total: int
    """How many there were when it began."""
    moved: int = 0
    status: str = "RUNNING"
    why: str = ""
    """Why it failed."""
    door: str = ""
    """Which door works on it."""
    until: float = 0.0
    """And until when, if it says no more."""


_DECODE: Final = msgspec.msgpack.Decoder(MoveTask).decode


class MoveTasks:
    """Starts tasks, works on those of this door, and takes on those that another one left."""

    def __init__(self, queues: SqsQueues, dead_letters: DeadLetters) -> None:
        self._queues = queues
        self._dead_letters = dead_letters
        self._name = secrets.token_hex(8)
        self._working: dict[str, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Looks after tasks from now on."""
        self._looking = asyncio.get_running_loop().create_task(self._look_after())

    async def close(self) -> None:
        """Leaves its tasks to other doors."""
        some = [*self._working.values(), *([self._looking] if self._looking else [])]
        for one in some:
            one.cancel()
        await asyncio.gather(*some, return_exceptions=True)

    # --- what programs ask ------------------------------------------------------------------------

    async def start_message_move_task(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        source = await self._named(asked.get("SourceArn"), "SourceArn")
        if not sources_of(source, self._queues.all()):
            why = "Source queue must be configured as a Dead Letter Queue."
            raise bad_value("SourceArn", asked["SourceArn"], why)
        target = ""
        if asked.get("DestinationArn"):
            target = (await self._named(asked["DestinationArn"], "DestinationArn")).name
        rate = number_in(asked, "MaxNumberOfMessagesPerSecond", 1, RATE_MAX, 0)
        if any(one.status == "RUNNING" for _, one in self._all(source.name)):
            raise SqsError(
                "UnsupportedOperation",
                "There is already a task running. Only one active task is allowed for a source "
                "queue arn at a given time.",
            )
        total = (await self._queues.fifo(source.name).stats()).ready
        handle = secrets.token_urlsafe(24)
        now = int(time.time() * 1000)
        task = MoveTask(handle, source.name, target, rate, now, total)
        if await self._say(0, self._mine(task)):
            self._work_on(handle)
        await self._forget_old(source.name)
        return {"TaskHandle": handle}

    async def list_message_move_tasks(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        source = await self._named(asked.get("SourceArn"), "SourceArn")
        most = number_in(asked, "MaxResults", 1, KEPT, 1)
        rows = sorted(self._all(source.name), key=lambda pair: pair[1].began, reverse=True)
        return {"Results": [self._shown(source, one) for _, one in rows[:most]]}

    async def cancel_message_move_task(self, caller: SqsCaller, asked: Params) -> Told:
        del caller
        handle = asked.get("TaskHandle")
        if not handle:
            raise missing("TaskHandle")
        for _ in range(10):
            await self._queues.registry.look(fresh=True)
            found = self._find(str(handle)[:200])
            if found is None:
                raise SqsError("ResourceNotFoundException", "The task does not exist.", 404)
            version, task = found
            if task.status != "RUNNING":
                raise SqsError("UnsupportedOperation", "Only active tasks can be cancelled.")
            if await self._say(version, msgspec.structs.replace(task, status="CANCELLED")):
                return {"ApproximateNumberOfMessagesMoved": task.moved}
        raise SqsError("ServiceUnavailable", "the task is being changed by others", 503)

    async def source_of(self, handle: object) -> str:
        """The queue that a task empties; nothing of no task."""
        if not handle:
            return ""
        await self._queues.registry.look(fresh=True)
        found = self._find(str(handle)[:200])
        return "" if found is None else found[1].source

    async def _named(self, said: Any, name: str) -> QueueRecord:
        if not said:
            raise missing(name)
        await self._queues.registry.look(fresh=True)
        try:
            return await self._queues.record(name_in(str(said)))
        except SqsError:
            text = "The resource that you specified for the SourceArn parameter doesn't exist."
            raise SqsError("ResourceNotFoundException", text, 404) from None

    def _shown(self, source: QueueRecord, task: MoveTask) -> Told:
        found: Told = {
            "Status": task.status,
            "SourceArn": source.arn,
            "ApproximateNumberOfMessagesMoved": task.moved,
            "ApproximateNumberOfMessagesToMove": task.total,
            "StartedTimestamp": task.began,
        }
        if task.status == "RUNNING":
            found["TaskHandle"] = task.handle
        if task.target:
            found["DestinationArn"] = f"{source.arn.rpartition(':')[0]}:{task.target}"
        if task.rate:
            found["MaxNumberOfMessagesPerSecond"] = task.rate
        if task.why:
            found["FailureReason"] = task.why
        return found

    # --- the registry's rows ----------------------------------------------------------------------

    def _find(self, handle: str) -> tuple[int, MoveTask] | None:
        row = self._queues.registry.find(KEY + handle)
        return None if row is None else (row[0], _DECODE(row[1]))

    def _all(self, source: str = "") -> list[tuple[int, MoveTask]]:
        rows = [
            (version, _DECODE(value))
            for key, (version, value) in self._queues.registry.rows.items()
            if key.startswith(KEY)
        ]
        return [row for row in rows if not source or row[1].source == source]

    async def _say(self, version: int, task: MoveTask) -> bool:
        return await self._queues.registry.change(KEY + task.handle, version, _ENCODE(task))

    def _mine(self, task: MoveTask) -> MoveTask:
        until = time.time() + HELD_SECONDS
        return msgspec.structs.replace(task, door=self._name, until=until)

    async def _forget_old(self, source: str) -> None:
        over = [pair for pair in self._all(source) if pair[1].status != "RUNNING"]
        for version, task in sorted(over, key=lambda pair: pair[1].began)[:-KEPT]:
            await self._queues.registry.change(KEY + task.handle, version, None)

    # --- work -------------------------------------------------------------------------------------

    async def _look_after(self) -> None:
        """Takes on what another door left (rule 1)."""
        while True:
            await asyncio.sleep(_LOOK_EACH)
            try:
                await self._queues.registry.look()
                for version, task in self._all():
                    left = task.status == "RUNNING" and task.until < time.time()
                    left = left and task.handle not in self._working
                    if left and await self._say(version, self._mine(task)):
                        self._work_on(task.handle)
            except SnowmeltError:
                continue  # the cluster is away; it is asked again

    def _work_on(self, handle: str) -> None:
        task = asyncio.get_running_loop().create_task(self._work(handle))
        self._working[handle] = task
        task.add_done_callback(lambda _: self._working.pop(handle, None))

    async def _work(self, handle: str) -> None:
        """Moves messages, and says now and then how far it is."""
        said, moved = time.monotonic(), 0
        while True:
            try:
                if time.monotonic() - said > _WORD_EACH or not moved:
                    found = self._find(handle)
                    if found is None or not await self._noted(found, moved):
                        return
                    said, moved = time.monotonic(), 0
                found = self._find(handle)
                if found is None or found[1].status != "RUNNING":
                    return
                began = time.monotonic()
                count = await self._some(found[1])
                moved += count
                if not count:
                    await self._ended(handle, moved)
                    return
                if found[1].rate:
                    pause = count / found[1].rate - (time.monotonic() - began)
                    await asyncio.sleep(max(0.0, pause))
            except SqsError as error:
                await self._ended(handle, moved, error.message)
                return
            except SnowmeltError:
                await asyncio.sleep(1.0)

    async def _noted(self, found: tuple[int, MoveTask], moved: int) -> bool:
        """Whether it is this door's still."""
        version, task = found
        if task.status != "RUNNING" or task.door != self._name:
            return False
        again = self._mine(msgspec.structs.replace(task, moved=task.moved + moved))
        return await self._say(version, again)

    async def _ended(self, handle: str, moved: int, why: str = "") -> None:
        await self._queues.registry.look(fresh=True)
        found = self._find(handle)
        if found is None or found[1].status != "RUNNING" or found[1].door != self._name:
            return
        status = "FAILED" if why else "COMPLETED"
        task = msgspec.structs.replace(
            found[1], status=status, why=why, moved=found[1].moved + moved
        )
        await self._say(found[0], task)

    async def _some(self, task: MoveTask) -> int:
        """Moves some messages that wait; how many."""
        record = await self._queues.record(task.source)
        most = min(_AT_ONCE, task.rate) if task.rate else _AT_ONCE
        try:
            items = list(await self._queues.fifo(task.source).get_many(most, timeout=0))
        except Empty:
            return 0
        for at, item in enumerate(items):
            try:
                await self._move(record, task, item)
            except BaseException:
                await asyncio.gather(*[one.release() for one in items[at:]], return_exceptions=True)
                raise
        return len(items)

    async def _move(self, record: QueueRecord, task: MoveTask, item: Item) -> None:
        message = unpacked(item.body, item.headers, f"{record.name}-{item.position}")
        came = message.envelope.system.get(SOURCE, "")
        target = task.target or name_in(came)
        mine = {one.name for one in sources_of(record, self._queues.all())}
        if not target or target not in {task.target, *mine}:  # whoever put it may say anything
            raise SqsError("CouldNotDetermineMessageSource", "CouldNotDetermineMessageSource")
        await self._queues.record(target)
        system = {key: value for key, value in message.envelope.system.items() if key != SOURCE}
        envelope = msgspec.structs.replace(message.envelope, system=system, sent=0)
        body, headers = packed(message.body, envelope)
        await self._dead_letters.carry(target, item, body, headers)
