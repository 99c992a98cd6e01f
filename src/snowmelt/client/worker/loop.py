"""One run of a blocking worker in this process: its threads, and how it ends."""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty as NothingTold
from queue import SimpleQueue
from random import Random
from typing import Any, Final

from snowmelt.client.leases.item_source import ItemSource
from snowmelt.client.leases.items import Item
from snowmelt.client.leases.looping import PASSING, LoopDeadline
from snowmelt.client.pool.face import Pool
from snowmelt.client.pool.objects import Object
from snowmelt.client.tracing import UNTRACED, Tracing
from snowmelt.client.worker.limits import Limit
from snowmelt.client.worker.options import LAST_SECONDS, REACH_SECONDS, WorkerSettings, check_worked
from snowmelt.client.worker.retrying import FailureOutcome, last_line
from snowmelt.client.worker.signals import next_word
from snowmelt.core.errors import Empty, SnowmeltError
from snowmelt.core.instant import SECOND, Instant, later, seconds
from snowmelt.runtime.clock import seconds_until, steady_now
from snowmelt.runtime.logs import tell

POLL_SECONDS: Final = 1.0
"""How long a get may wait before it is looked whether the worker is to stop."""
_STOP: Final = "stop"
_HARD: Final = "at once"
_ENDED: Final = "ended"
_CLOSED: Final = "closed"


class WorkerLoop:
    """Threads that take items, have the handler work, and say what came of it."""

    def __init__(
        self,
        name: str,
        intake: ItemSource | Pool,
        handler: Callable[[Any], object],
        settings: WorkerSettings,
        idle: float | None,
        tracing: Tracing = UNTRACED,
    ) -> None:
        self._name = name
        self._intake = intake
        self._handler = handler
        self._settings = settings
        self._idle = idle
        self._tracing = tracing
        self._pursuit = LoopDeadline(name, None, REACH_SECONDS)
        self._chance = Random()
        self._told: SimpleQueue[str] = SimpleQueue()  # handlers of signals may put into it
        self._left = 0  # threads that work
        self._stopped = self._hard = self._closed = False
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._tally = RunLog(name, settings)
        self._limit: Limit | None = None
        self._hands: dict[int, Item | Object] = {}
        """What handlers work on. Each change is one step, so it needs no lock."""
        self._since = steady_now()  # something came, or was over
        self._late = self._graced()
        """When `grace` is over, once it is to end."""

    def stop(self, *, hard: bool = False) -> None:
        """It is to end, warmly (rule 4 of the package), or at once; from anywhere."""
        self._stopped = True  # at once, for whoever asks is the first to know that it is enough
        self._told.put(_HARD if hard else _STOP)

    def wait_for_cluster(self) -> None:
        """The cluster was there: should it be away, it is waited for."""
        self._pursuit.answered()

    def work(self) -> None:
        """Works until `stop`, or until nothing came for long; raises what ended it."""
        self._tally.begin()
        if self._settings.limit is not None:
            self._limit = Limit(self._settings.limit, kills=self._settings.processes > 0)
        try:
            for number in range(self._settings.at_once):
                self._begin(self._serve, f"snowmelt-worker-{number}")
                self._left += 1
            while self._left and not self._stopped and self._failure is None:
                self._hear(None)
            self._over.set()
            self._tally.stop(len(self._hands))
            self._late = self._graced()
            self._begin(self._rest, "snowmelt-worker-rests")
            while self._left and not self._hard and self._hear(self._late):
                pass
            if self._left and not self._hard:
                told = {"queue": self._name, "handlers": self._left}
                tell("a worker gave up its handlers", logging.WARNING, **told)
        finally:
            if not self._over.is_set():
                self._late = self._graced()
            self._over.set()
            self._end()
            if self._limit is not None:
                self._limit.close()
            self._tally.end()
        if self._failure is not None:
            raise self._failure

    def _graced(self) -> Instant:
        return later(steady_now(), seconds(self._settings.grace))

    def _begin(self, work: Callable[[], None], name: str) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()

    def _hear(self, end: Instant | None) -> bool:
        """Waits for a word; whether one came in time."""
        try:
            word = next_word(self._told, end)
        except NothingTold:
            return False
        self._left -= word == _ENDED
        self._hard |= word == _HARD
        self._closed |= word == _CLOSED
        return True

    def _end(self) -> None:
        """What is in hand goes back. A second signal leaves that a moment, and so does `grace`."""
        self._begin(self._close, "snowmelt-worker-closes")
        while not (self._closed or self._hard) and self._hear(self._late):
            pass
        end = later(steady_now(), seconds(LAST_SECONDS))
        while not self._closed and self._hear(end):
            pass
        if not self._closed and isinstance(self._intake, ItemSource):
            self._intake.abandon()

    # --- in threads of their own, for a node may be silent ----------------------------------------

    def _rest(self) -> None:
        if isinstance(self._intake, ItemSource):
            with suppress(SnowmeltError):  # then when it is closed, or the lease ends
                self._intake.rest()

    def _close(self) -> None:
        try:
            if isinstance(self._intake, ItemSource):
                self._intake.close()
            for held in list(self._hands.values()):
                if isinstance(held, Object) and held.open:
                    with suppress(SnowmeltError):
                        held.nack()
        finally:
            self._told.put(_CLOSED)

    # --- in a thread ------------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            while not self._ends:
                held = self._next()
                if held is not None:
                    self._attend(held)
                elif self._idle_for_long():
                    break
        except BaseException as error:
            self._failure = self._failure or error
        finally:
            self._told.put(_ENDED)

    def _next(self) -> Item | Object | None:
        most = POLL_SECONDS if self._idle is None else min(POLL_SECONDS, self._idle)
        try:
            held = self._taken(most)
        except PASSING as error:
            self._over.wait(self._pursuit.failed(error))
            if not self._pursuit.reached:  # it is not idle yet
                self._since = steady_now()
            return None
        self._pursuit.answered()
        return held

    def _taken(self, timeout: float) -> Item | Object | None:
        if isinstance(self._intake, ItemSource):
            return self._intake.next(timeout)
        with suppress(Empty):  # nothing is asked for ahead (rule 9)
            return self._intake.get(timeout=timeout)
        return None

    def _attend(self, held: Item | Object) -> None:
        if self._ends:  # it came too late
            with suppress(SnowmeltError):
                held.nack() if isinstance(held, Object) else held.release()
            return
        self._hands[id(held)] = held
        try:
            if self._limit is None:
                self._work_on(held)
            else:
                self._limit.call(partial(self._work_on, held), which(self._name, held))
        except Exception as error:
            self._failed(held, error)
        except BaseException as error:  # rule 5
            self._failed(held, error)
            raise
        else:
            self._done(held)
        finally:
            self._since = steady_now()
            del self._hands[id(held)]

    def _work_on(self, held: Item | Object) -> None:
        with self._tracing.process(self._name, held):
            check_worked(self._handler, self._handler(held))

    def _done(self, held: Item | Object) -> None:
        self._tally.done += 1
        try:
            if not self._settled(held):
                held.ack()
        except SnowmeltError as error:
            tell_untold("done", self._name, held, error)

    def _failed(self, held: Item | Object, error: BaseException) -> None:
        self._tally.failed += 1
        failures = 0 if isinstance(held, Object) else held.failures
        fate = self._settings.retrying.fate(error, failures, self._chance)
        tell_failed(self._name, held, fate, error)
        try:
            if self._settled(held):
                pass  # its handler has said what becomes of it
            elif isinstance(held, Object):
                self._over.wait(fate.wait)
                held.nack()
            else:
                held.nack(fate.wait, fate.reason, dead=fate.dead)
        except SnowmeltError as failure:
            tell_untold("failed", self._name, held, failure)

    def _settled(self, held: Item | Object) -> bool:
        """Whether its handler has said what becomes of it (rule 1)."""
        if isinstance(held, Object):
            return not held.open
        return isinstance(self._intake, ItemSource) and self._intake.settled(held)

    @property
    def _ends(self) -> bool:
        return self._stopped or self._over.is_set()

    def _idle_for_long(self) -> bool:
        waits = isinstance(self._intake, ItemSource) and not self._intake.empty
        if self._idle is None or self._hands or waits:
            return False
        return seconds_until(later(self._since, seconds(self._idle))) <= 0


class RunLog:
    """What a run says of itself in the log: that it began, that it stops, and what it has done."""

    def __init__(self, name: str, settings: WorkerSettings) -> None:
        self._name = name
        self._settings = settings
        self._began = steady_now()
        self.done = 0
        self.failed = 0
        """About so many: threads count without a lock."""

    def begin(self) -> None:
        tell("a worker began", queue=self._name, at_once=self._settings.at_once, pid=os.getpid())

    def stop(self, in_hand: int) -> None:
        tell("a worker stops", queue=self._name, in_hand=in_hand, grace=self._settings.grace)

    def end(self) -> None:
        spent = f"{(steady_now() - self._began) / SECOND:.0f}"
        counts = {"done": self.done, "failed": self.failed, "seconds": spent}
        tell("a worker ended", queue=self._name, **counts, pid=os.getpid())


def tell_failed(queue: str, held: Any, fate: FailureOutcome, error: BaseException) -> None:
    what = which(queue, held)
    what |= {"dead_after": _failures(held)} if fate.dead else {"again_in": f"{fate.wait:.3g} s"}
    tell("a handler failed", logging.WARNING, error, **what, reason=last_line(error))


def _failures(held: Any) -> str:
    """How often an item has failed, this time included."""
    return "1 failure" if held.failures == 0 else f"{held.failures + 1} failures"


def tell_untold(what: str, queue: str, held: Any, error: SnowmeltError) -> None:
    """Logs that no node took what became of an item."""
    tell(f"{what}, and not told", logging.WARNING, **which(queue, held), reason=str(error))


def which(queue: str, held: Any) -> dict[str, object]:
    """What a line of the log says it is about. An object of a pool has no position."""
    position = getattr(held, "position", None)
    return {"queue": queue} if position is None else {"queue": queue, "position": int(position)}
