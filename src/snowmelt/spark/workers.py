"""A worker stage: plain Python, no Spark, and still every item exactly once.

The stage is a group of its source (`queue.groups`): what it is given stays its own, and comes
again, the same in the same order, until the group is past it. One turn of the loop is

1. ask for more; write down, safely, that we are at work up to there;
2. read the items, call the function, and stage what it returns, in no queue yet;
3. publish all of it in one step, under the number of items the stage has had so far;
4. write down, safely, that we are done up to there. The next turn's first step tells the queue.

A crash after 1 begins again at 2 with the same items. A crash after 3 does so as well, and its
publication, whose number was used, puts nothing. What was staged and never published is erased.
So whatever the function returns is in the sink once, even if it returns something else the second
time: what must be the same is which items it was called with. What it does otherwise may happen
twice. An item that is lost with all its copies ends the stage, unless it is to go on.
"""

import fcntl
import os
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final, Self

import msgspec

from snowmelt.client.cluster import Cluster
from snowmelt.client.embedded.face import EmbeddedCluster
from snowmelt.client.leases.delivered import part_bodies
from snowmelt.client.queue.group_steps import BEGINNING, Mark
from snowmelt.core.errors import (
    BadOption,
    DataLost,
    GroupHeld,
    LeaseLost,
    OutcomeUnknown,
    SnowmeltError,
    StateError,
    StoreBusy,
    StoreDamaged,
    Unavailable,
)
from snowmelt.spark.failing import StageFailed, failed
from snowmelt.spark.stages import WorkerStage

PATIENCE: Final = 60.0
"""Seconds without an answer from the queues, after which the stage fails."""
IDLE: Final = 0.2
HOLD: Final = 3600.0
STOP_SECONDS: Final = 20.0

Body = tuple[int, bytes]


class StageProgress(msgspec.Struct, frozen=True):
    """Where a stage is: done with all up to one mark, at work on what lies up to another."""

    source: str
    group: str
    done: Mark = BEGINNING
    end: Mark = BEGINNING


class StageCheckpoint:
    """A stage's place, kept in a folder that one process holds at a time.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with StageCheckpoint(Path(folder), "raw", "words.split") as memory:
    ...         memory.keep(Mark(), Mark(7, 100))
    ...     with StageCheckpoint(Path(folder), "raw", "words.split") as memory:
    ...         memory.place.end
    Mark(lease=7, count=100)
    """

    def __init__(self, folder: Path, source: str, group: str) -> None:
        self.folder = folder
        self._file = folder / "mark.json"
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._hold(folder)
            self.place = self._read(StageProgress(source, group))
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets another process have the folder."""
        os.close(self._lock)

    def keep(self, done: Mark, end: Mark) -> None:
        """Writes the place down. When this returns it outlasts a crash of the machine."""
        place = msgspec.structs.replace(self.place, done=done, end=end)
        fresh = self._file.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(msgspec.json.encode(place))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._file)
        folder = os.open(self._file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self.place = place

    def _hold(self, folder: Path) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StoreBusy(f"another process runs the stage of {folder}") from error

    def _read(self, fresh: StageProgress) -> StageProgress:
        try:
            kept = msgspec.json.decode(self._file.read_bytes(), type=StageProgress)
        except FileNotFoundError:
            return fresh
        except msgspec.DecodeError as error:
            raise StoreDamaged(f"{self._file} is no place of a stage: {error}") from error
        if (kept.source, kept.group) != (fresh.source, fresh.group):
            allowed = f"one of group {fresh.group} on queue {fresh.source}; give it its own folder"
            raise BadOption("checkpoint", f"of group {kept.group} on queue {kept.source}", allowed)
        return kept


class _Stopped(Exception):
    """The stage is to stop; what it was at is left for the next time."""


class WorkerRun:
    """One worker stage at work in a thread of its own."""

    def __init__(
        self,
        stage: WorkerStage,
        group: str,
        cluster: Cluster | EmbeddedCluster,
        folder: Path,
        log: Path,
    ) -> None:
        self.stage = stage
        self.made: int | None = 0
        self.lost = 0
        """Items that can't be read from any copy."""
        self._source = cluster.fifo(stage.source)
        self._group = self._source.group(group)
        self._cluster = cluster
        self._memory = StageCheckpoint(folder, stage.source, group)
        self._log = log
        self._stop = threading.Event()
        self._failure: StageFailed | None = None
        self._pool = ThreadPoolExecutor(stage.partitions, f"snowmelt-{group}")
        self._thread = threading.Thread(target=self._run, name=f"snowmelt-{group}", daemon=True)

    def start(self) -> None:
        """Starts the thread; `check` raises what ended it."""
        self._thread.start()

    def check(self) -> None:
        """Raises what went wrong, if anything did."""
        if self._failure is not None:
            raise self._failure

    def ask_to_stop(self) -> None:
        """Makes it stop before its next item."""
        self._stop.set()

    def stop(self) -> None:
        """Stops before the next item, and waits for that; what was begun is done the next time."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)
        self._pool.shutdown(wait=False, cancel_futures=True)
        if not self._thread.is_alive():
            self._memory.close()

    # --- the loop ---------------------------------------------------------------------------------

    def _run(self) -> None:
        with suppress(_Stopped):
            try:
                self._turns()
            except StageFailed as failure:
                self._failure = failure
            except Exception as error:  # whatever it is, the pipeline has to hear of it
                self._failure = failed(
                    self.stage.name, self._cause(error), traceback.format_exc(), self._log
                )

    def _turns(self) -> None:
        answered = time.monotonic()
        while not self._stop.is_set():
            try:
                busy = self.turn()
                answered = time.monotonic()
            except (StateError, OutcomeUnknown):
                # Also when a publication's fate is unknown: the same again does it once.
                if time.monotonic() - answered > PATIENCE:
                    raise
                busy = False
            if not busy:
                self._stop.wait(IDLE)

    def turn(self) -> bool:
        """Does one assignment, the one begun or the next; whether there was any."""
        place = self._memory.place
        if place.end == place.done:
            end = self._group.advance(
                place.done,
                items_max=self.stage.rows_per_batch,
                bytes_max=self.stage.bytes_per_batch,
            ).end
            if end == place.done:
                return False
            self._memory.keep(place.done, end)
            place = self._memory.place
        results = self._results(self._items(place.done, place.end))
        self._put(results, place.done, place.end)
        self._memory.keep(place.end, place.end)
        self.made = (self.made or 0) + len(results)
        return True

    def _items(self, start: Mark, end: Mark) -> list[Body]:
        located = self._group.locate(start, end)
        reading = self._source.read(located.spans)
        if reading.unread:
            count = sum(interval.size for interval in reading.unread)
            raise Unavailable(f"{count} items of {self.stage.source} can't be read just now")
        if located.lost and self.stage.fail_on_loss:
            raise DataLost(
                f"{located.lost} of {end.count - start.count} items of queue {self.stage.source!r} "
                f"that group {self._group.name!r} was given are gone: lost with all copies. To go "
                "on without them: fail_on_loss=False"
            )
        self.lost += located.lost
        return [body for part in reading.parts for body in enumerate(part_bodies(part), part.start)]

    def _results(self, items: list[Body]) -> list[bytes]:
        """What the function makes of the items, in their order."""
        if self.stage.partitions == 1:
            return list(self._called(items))
        size = -(-len(items) // self.stage.partitions) or 1
        slices = [items[first : first + size] for first in range(0, len(items), size)]
        done = self._pool.map(lambda part: list(self._called(part)), slices)
        return list(chain.from_iterable(done))

    def _called(self, items: Sequence[Body]) -> Iterator[bytes]:
        for position, body in items:
            if self._stop.is_set():
                raise _Stopped
            try:
                for result in self.stage.worker(body) or ():
                    yield _checked(result)
            except Exception as error:
                cause = f"{type(error).__name__}: {error}"
                told = f"{cause}, at item {position} of {self.stage.source}"
                raise failed(self.stage.name, told, traceback.format_exc(), self._log) from error

    def _put(self, results: list[bytes], done: Mark, end: Mark) -> None:
        if not results or self.stage.sink is None:
            return
        # A group that was released and begins anew counts from 0 again, under another lease.
        producer = f"{self._group.name}.{end.lease:x}"
        sink = self._cluster.fifo(self.stage.sink, producer=producer)
        receipts = sink.stage(results, hold=HOLD)
        self._group.locate(done, end)  # whoever lost the group finds out before it publishes
        # The items it was made of tell one publication from another: 0 would tell nothing.
        sink.publish(receipts, sequence=end.count, digest=done.count + 1)

    def _cause(self, error: Exception) -> str:
        queue, group = self.stage.source, self._group.name
        match error:
            case GroupHeld():
                return (
                    f"group {group} of queue {queue} is past its beginning, and the checkpoint is "
                    f"not; bring back the right one, or begin anew after `snowmelt groups "
                    f"release {queue} {group}`, which may do the last batch twice"
                )
            case LeaseLost():
                return (
                    f"{error}; this checkpoint can't go on. Run the stage in one program only; to "
                    f"begin anew, delete the folder {self._memory.folder}"
                )
            case SnowmeltError():
                return str(error)
            case _:
                return f"{type(error).__name__}: {error}"


def _checked(result: object) -> bytes:
    if isinstance(result, bytes | bytearray | memoryview):
        return bytes(result)
    raise TypeError(f"the worker has to return a list of bytes; this has a {type(result).__name__}")
