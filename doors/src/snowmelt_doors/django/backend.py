"""What `TASKS` names as its backend."""

import logging
from collections.abc import Iterable
from typing import Any, Final

from django.core import checks
from django.db import connections
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
from snowmelt_doors.places import AWAY
from snowmelt_doors.results import DAY, Windows

ID_LENGTH: Final = 32
MARKS: Final = {"postgresql": "%s", "sqlite": "?"}
"""Which databases may have an outbox, and what stands for a value in their SQL."""
_ROW: Final = "INSERT INTO outbox (queue, priority, due, body) VALUES (%s, %s, %s, %s)"
_LOG: Final = logging.getLogger("snowmelt.django")


class SnowmeltTaskBackend(BaseTaskBackend):
    """Tasks in a cluster or a folder.

    `OPTIONS` has `where` (the URL of a cluster, `snowmelt://HOST:PORT`, or the path of a folder for
    a site of one process), and may have `token`, `user`, `namespace` ("django") and `retention`,
    for how many seconds a result can be got (a day). With `outbox`, the alias of a database, a task
    is a row there first: what is enqueued in a transaction is there exactly if that commits.
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
        due: float | None = None
        if task.run_after is not None:
            after = task.run_after
            aware = after if timezone.is_aware(after) else timezone.make_aware(after)
            due = aware.timestamp()
        alias = self.options.get("outbox")
        if alias:
            self._write(alias, result, due)
        else:
            self._put(result, max(0.0, due - now.timestamp()) if due else 0.0)
        task_enqueued.send(type(self), task_result=result)
        return result

    def _put(self, result: TaskResult, delay: float) -> None:
        body, connected, task = body_of(result), self.connected, result.task
        queue = connected.queue(task.queue_name)
        connected.records.store(result.id, body)
        queue.put(body, priority=int(task.priority), delay=delay)

    def _write(self, alias: str, result: TaskResult, due: float | None) -> None:
        """Into the outbox, in the transaction of this thread; the relay puts it."""
        body, connected, task = body_of(result), self.connected, result.task
        try:  # before the relay can know of it, so that no worker has written more
            connected.records.store(result.id, body)
        except AWAY as error:  # a site goes on without its cluster
            _LOG.warning("nothing can be got of task %s until it runs: %s", result.id, error)
        row = connected.name(task.queue_name), int(task.priority), due, body
        with connections[alias].cursor() as cursor:
            cursor.execute(_ROW, row)

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
        alias = self.options.get("outbox")
        if alias and (alias not in connections or connections[alias].vendor not in MARKS):
            text = f"TASKS[{self.alias!r}]: outbox is {alias!r}."
            hint = "It is the alias of a database of PostgreSQL or SQLite."
            yield checks.Error(text, hint=hint, id="snowmelt.E004")
        try:
            Windows("results", self.options.get("retention", DAY))
        except BadOption as error:
            yield checks.Error(f"TASKS[{self.alias!r}]: {error}", id="snowmelt.E003")
