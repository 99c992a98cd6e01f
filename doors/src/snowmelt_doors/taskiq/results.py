"""Where Taskiq keeps what tasks return, as JSON."""

import os
from typing import Any

from taskiq import AsyncResultBackend, TaskiqResult
from taskiq.depends.progress_tracker import TaskProgress
from taskiq.exceptions import ResultGetError

from snowmelt_doors.results import DAY, AsyncResultTable
from snowmelt_doors.taskiq.connecting import Connecting


class ResultIsMissing(ResultGetError):
    """There is no result of this task, or no more."""

    __template__ = "There is no result of task {task_id}, or it is older than {retention} seconds"
    task_id: str
    retention: int


class SnowmeltResultBackend(AsyncResultBackend[Any]):
    """Results in the cluster for `retention` seconds (a day); all programs say the same.

    With `keep_results=False` a result is there until it was got once.
    """

    def __init__(
        self,
        where: str | os.PathLike[str],
        *,
        namespace: str = "taskiq-results",
        retention: int = DAY,
        keep_results: bool = True,
        token: str | None = None,
        user: str | None = None,
    ) -> None:
        self._connecting = Connecting(where, token, user)
        self._keeps = keep_results
        self._namespace = namespace
        self._retention = retention
        self._table: AsyncResultTable | None = None
        AsyncResultTable(None, namespace, retention)  # says what is wrong with these

    async def shutdown(self) -> None:
        """Disconnects."""
        self._table = None
        await self._connecting.close()

    async def set_result(self, task_id: str, result: TaskiqResult[Any]) -> None:
        """Keeps a result safely."""
        await self._results.store(task_id, result.model_dump_json().encode())

    async def is_result_ready(self, task_id: str) -> bool:
        """Whether there is a result."""
        return await self._results.find(task_id) is not None

    async def get_result(self, task_id: str, with_logs: bool = False) -> TaskiqResult[Any]:
        """The result; raises `ResultIsMissing`. Without `with_logs` it has no log."""
        body = await self._results.find(task_id)
        if body is None:
            raise ResultIsMissing(task_id=task_id, retention=self._retention)
        if not self._keeps:
            await self._results.forget(task_id)
        result = TaskiqResult[Any].model_validate_json(body)
        if not with_logs:
            result.log = None
        return result

    async def set_progress(self, task_id: str, progress: TaskProgress[Any]) -> None:
        """Keeps how far a task is."""
        await self._results.store(f"{task_id} progress", progress.model_dump_json().encode())

    async def get_progress(self, task_id: str) -> TaskProgress[Any] | None:
        """How far a task is; None when it never said so."""
        body = await self._results.find(f"{task_id} progress")
        return None if body is None else TaskProgress[Any].model_validate_json(body)

    @property
    def _results(self) -> AsyncResultTable:
        if self._table is None:
            self._table = AsyncResultTable(
                self._connecting.cluster, self._namespace, self._retention
            )
        return self._table
