"""Runs one task, and writes down what became of it."""

import json
import logging
from traceback import format_exception
from typing import Any, Final

from django import db
from django.utils import timezone
from django.utils.crypto import get_random_string

from snowmelt.core.errors import CallerError
from snowmelt_doors.django.backend import SnowmeltTaskBackend
from snowmelt_doors.django.framework import (
    TaskContext,
    TaskError,
    TaskResult,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from snowmelt_doors.django.records import body_of, change, result_of

_LOG: Final = logging.getLogger("snowmelt.django")


class TaskRunner:
    """Runs tasks for a worker."""

    def __init__(self, backend: SnowmeltTaskBackend, limit: float | None = None) -> None:
        self.worker_id = get_random_string(32)
        self._backend = backend
        self._limit = limit
        self._records = backend.connected.records

    def __call__(self, item: Any) -> None:
        """Runs the task of an item; what it raises is written down, and not raised here."""
        before = self._records.find(_id_of(item.body)) if item.failures else None
        try:
            result = result_of(before or item.body)
        except Exception as error:  # its code is not here: then nobody can run it
            _LOG.exception("A task can't be run.")
            self._unknown(item.body, error)
            return
        if before is not None and result.is_finished:  # only its acknowledgement was lost
            return
        db.close_old_connections()
        try:
            self._run(result)
        finally:
            db.close_old_connections()

    def _run(self, result: TaskResult) -> None:
        now = timezone.now()
        started_at = result.started_at or now
        change(result, status=TaskResultStatus.RUNNING)
        change(result, started_at=started_at, last_attempted_at=now)
        result.worker_ids.append(self.worker_id)
        self._write(result)
        task_started.send(sender=type(self._backend), task_result=result)
        try:
            value = normalize_json(self._called(result))
        except KeyboardInterrupt:
            raise  # it stops the worker, and another runs the task again
        except (Exception, SystemExit) as error:
            self._fail(result, error)
        except BaseException:  # the worker's, of a task that took too long
            self._fail(result, TimeoutError(f"it took longer than {self._limit:g} seconds"))
        else:
            self._end(result, value)

    def _called(self, result: TaskResult) -> Any:
        task = result.task
        first = [TaskContext(task_result=result)] if task.takes_context else []
        return task.call(*first, *result.args, **result.kwargs)

    def _end(self, result: TaskResult, value: Any) -> None:
        change(result, status=TaskResultStatus.SUCCESSFUL)
        change(result, _return_value=value, finished_at=timezone.now())
        try:
            self._write(result)
        except CallerError as error:  # too large, say: it is as if it had been raised
            change(result, _return_value=None)
            self._fail(result, error)
            return
        task_finished.send(type(self._backend), task_result=result)

    def _fail(self, result: TaskResult, error: BaseException) -> None:
        result.errors.append(_told(error))
        change(result, status=TaskResultStatus.FAILED, finished_at=timezone.now())
        self._write(result)
        task_finished.send(type(self._backend), task_result=result)

    def _write(self, result: TaskResult) -> None:
        self._records.store(result.id, body_of(result))

    def _unknown(self, body: bytes, error: BaseException) -> None:
        """Of a task whose code is not here there is no `TaskResult`."""
        told, now = _told(error), timezone.now().isoformat()
        record = json.loads(body)
        record |= {"status": "FAILED", "finished_at": now, "last_attempted_at": now}
        record["errors"].append([told.exception_class_path, told.traceback])
        record["worker_ids"].append(self.worker_id)
        self._records.store(record["id"], json.dumps(record).encode())


def _id_of(body: bytes) -> str:
    return str(json.loads(body)["id"])


def _told(error: BaseException) -> TaskError:
    kind = type(error)
    return TaskError(
        exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
        traceback="".join(format_exception(error)),
    )
