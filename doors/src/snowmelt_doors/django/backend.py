"""What `TASKS` names as its backend."""

from collections.abc import Iterable
from typing import Any, Final

from django.core import checks
from django.utils import timezone
from django.utils.crypto import get_random_string

from snowmelt.core.errors import BadOption
from snowmelt_doors.django.framework import (
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_enqueued,
)
from snowmelt_doors.django.places import OPTIONS, Connected, connected
from snowmelt_doors.django.records import body_of, result_of
from snowmelt_doors.results import DAY, Windows

ID_LENGTH: Final = 32


class SnowmeltTaskBackend(BaseTaskBackend):
    """Tasks in a cluster or a folder.

    `OPTIONS` has `where` (the URL of a cluster, `snowmelt://HOST:PORT`, or the path of a folder for
    a site of one process), and may have `token`, `user`, `namespace` ("django") and `retention`,
    for how many seconds a result can be got (a day).
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    @property
    def connected(self) -> Connected:
        """The cluster, which all threads of a process share."""
        return connected(self.options)

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        """Puts a task safely into its queue."""
        self.validate_task(task)
        now = timezone.now()
        result = TaskResult(
            task=task,
            id=get_random_string(ID_LENGTH),
            status=TaskResultStatus.READY,
            enqueued_at=now,
            started_at=None,
            last_attempted_at=None,
            finished_at=None,
            args=normalize_json(args),
            kwargs=normalize_json(kwargs),
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        delay = 0.0
        if task.run_after is not None:
            after = task.run_after
            here = now if timezone.is_aware(after) else timezone.make_naive(now)
            delay = max(0.0, (after - here).total_seconds())
        body, connected = body_of(result), self.connected
        queue = connected.queue(task.queue_name)
        connected.records.store(result.id, body)
        queue.put(body, priority=int(task.priority), delay=delay)
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """What became of a task; raises `TaskResultDoesNotExist` when nothing is kept of it."""
        body = self.connected.records.find(str(result_id))
        if body is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(body)

    def check(self, **kwargs: Any) -> Iterable[Any]:
        """What is wrong with its options."""
        yield from super().check(**kwargs)
        unknown = sorted(set(self.options) - set(OPTIONS))
        if unknown:
            text = f"TASKS[{self.alias!r}] has unknown OPTIONS: {', '.join(unknown)}."
            yield checks.Error(text, hint=f"Known are {', '.join(OPTIONS)}.", id="snowmelt.E001")
        if not self.options.get("where"):
            text = f"TASKS[{self.alias!r}] does not say where its tasks are."
            hint = "OPTIONS: {'where': 'snowmelt://HOST:PORT'}, or the path of a folder."
            yield checks.Error(text, hint=hint, id="snowmelt.E002")
        try:
            Windows("results", self.options.get("retention", DAY))
        except BadOption as error:
            yield checks.Error(f"TASKS[{self.alias!r}]: {error}", id="snowmelt.E003")
