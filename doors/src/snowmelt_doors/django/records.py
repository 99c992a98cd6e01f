"""What is kept of a task: as JSON, with the names of Django's `TaskResult`."""

import json
from datetime import datetime
from typing import Any

from django.utils.module_loading import import_string

from snowmelt_doors.django.framework import (
    InvalidTask,
    Task,
    TaskError,
    TaskResult,
    TaskResultStatus,
)

TIMES = ("enqueued_at", "started_at", "finished_at", "last_attempted_at")


def body_of(result: TaskResult) -> bytes:
    """A record of a task."""
    task = result.task
    record = {
        "id": result.id,
        "task": task.module_path,
        "queue_name": task.queue_name,
        "priority": task.priority,
        "run_after": _text(task.run_after),
        "backend": result.backend,
        "status": str(result.status),
        "args": result.args,
        "kwargs": result.kwargs,
        "errors": [[one.exception_class_path, one.traceback] for one in result.errors],
        "worker_ids": result.worker_ids,
        "return_value": result._return_value,  # noqa: SLF001  # there is no other way
    }
    record |= {name: _text(getattr(result, name)) for name in TIMES}
    return json.dumps(record, separators=(",", ":")).encode()


def result_of(body: bytes) -> TaskResult:
    """The task that a record is of, as it was then."""
    record: dict[str, Any] = json.loads(body)
    task = import_string(record["task"])
    if not isinstance(task, Task):
        raise InvalidTask(f"{record['task']} is no task.")
    changed = task.using(
        priority=record["priority"],
        queue_name=record["queue_name"],
        run_after=_time(record["run_after"]),
        backend=record["backend"],
    )
    result = TaskResult(
        task=changed,
        id=record["id"],
        status=TaskResultStatus[record["status"]],
        args=record["args"],
        kwargs=record["kwargs"],
        backend=record["backend"],
        errors=[
            TaskError(exception_class_path=path, traceback=text) for path, text in record["errors"]
        ],
        worker_ids=list(record["worker_ids"]),
        **{name: _time(record[name]) for name in TIMES},
    )
    change(result, _return_value=record["return_value"])
    return result


def change(result: TaskResult, **fields: Any) -> None:
    """Its class is frozen for programs, and changed so by Django's own backends."""
    for name, value in fields.items():
        object.__setattr__(result, name, value)


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
