"""Work on several cores: each worker is a process with a pipe of its own, and every wait ends.

    this process  --task-->  worker  --result-->  this process, which then has the next task for it

Workers share nothing, no queue, no lock and no thread, so one may be ended in the middle of its
work without harm to the others. One that died is known by the end of its pipe; and one whose
starter died finds the end of its own.
"""

import signal
from collections.abc import Callable, Generator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any, Generic, TypeVar, cast

from snowmelt.core.errors import MachineError
from snowmelt_world.work import Crew

END_SECONDS = 5.0

Task = TypeVar("Task")
Result = TypeVar("Result")


class Worker(Generic[Task]):
    """One process, and what it works on."""

    def __init__(self, work: Callable[[Task], object], task_seconds: float) -> None:
        context = get_context("spawn")
        self.pipe, far = context.Pipe()
        self.at = 0
        self.task: Task | None = None
        self.due = 0.0
        self._task_seconds = task_seconds
        self._process = context.Process(target=_serve, args=(far, work), daemon=True)
        self._process.start()
        far.close()  # or its end would not be seen here

    def give(self, at: int, task: Task) -> None:
        """The next task, which is the one of this number."""
        self.at, self.task, self.due = at, task, monotonic() + self._task_seconds
        try:
            self.pipe.send(task)
        except OSError as error:
            raise self._died() from error

    def take(self) -> Any:
        """The result that has come."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error

    def end(self) -> None:
        """It works no more, whatever it does."""
        self.pipe.close()
        for ask in (self._process.terminate, self._process.kill):
            ask()
            self._process.join(END_SECONDS)
            if self._process.exitcode is not None:
                return

    def _died(self) -> MachineError:
        self._process.join(END_SECONDS)
        code = self._process.exitcode
        return MachineError(f"a worker died with code {code} at {self.task}; see what it said")


def processes(jobs: int, task_seconds: float) -> Crew:
    """A crew of so many processes."""
    return lambda work, pieces: spread(work, pieces, jobs, task_seconds)


def spread(
    work: Callable[[Task], Result], tasks: Sequence[Task], jobs: int, task_seconds: float
) -> Generator[Result, None, None]:
    """Does every task, so many at once, and yields the results in the tasks' order as they come.

    Who leaves early leaves no worker behind. A task that takes longer than this, or with which a
    worker dies, is a `MachineError`.

    >>> list(spread(abs, [-3, 2, -1], jobs=2, task_seconds=60))
    [3, 2, 1]
    """
    crew: list[Worker[Task]] = []
    left = iter(enumerate(tasks))
    busy: dict[Connection, Worker[Task]] = {}
    done: dict[int, Result] = {}

    def give(worker: Worker[Task]) -> None:
        for at, task in left:
            worker.give(at, task)
            busy[worker.pipe] = worker
            return

    try:
        for _ in range(min(jobs, len(tasks))):
            crew.append(Worker(work, task_seconds))
            give(crew[-1])
        for at in range(len(tasks)):
            while at not in done:
                for worker in _heard(busy, task_seconds):
                    done[worker.at] = cast("Result", worker.take())
                    give(worker)
            yield done.pop(at)
    finally:
        for worker in crew:
            worker.end()


def _heard(busy: dict[Connection, Worker[Task]], task_seconds: float) -> list[Worker[Task]]:
    """Those who have something to say; at least one."""
    first = min(busy.values(), key=lambda worker: worker.due)
    ready = wait(list(busy), max(0.0, first.due - monotonic()))
    if not ready:
        raise MachineError(f"{first.task} took more than {task_seconds:g} s")
    return [busy.pop(cast("Connection", pipe)) for pipe in ready]


def _serve(pipe: Connection, work: Callable[[Any], object]) -> None:
    """In the worker: does what comes until nothing comes any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever began it ends it
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(work(task))
