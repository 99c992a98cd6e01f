"""Where Dramatiq's `Results` keeps what actors return."""

import os
from typing import Any

from dramatiq.encoder import Encoder
from dramatiq.results.backend import Missing, ResultBackend

from snowmelt_doors.places import Place, closed, opened
from snowmelt_doors.results import DAY, ResultTable


class SnowmeltResults(ResultBackend):
    """Results in the cluster, for the `result_ttl` of their actors.

    `where` and `cluster` are as `SnowmeltBroker` has them. No `result_ttl` may be longer than
    `retention` seconds (a day).
    """

    def __init__(
        self,
        where: str | os.PathLike[str] | None = None,
        *,
        cluster: Place | None = None,
        token: str | None = None,
        user: str | None = None,
        namespace: str = "dramatiq-results",
        retention: int = DAY,
        encoder: Encoder | None = None,
    ) -> None:
        super().__init__(namespace=namespace, encoder=encoder)
        self._own = cluster is None
        self._cluster = cluster or opened(where or "", token=token, user=user)
        self._results = ResultTable(self._cluster, namespace, retention)

    def close(self) -> None:
        """Disconnects; a cluster that was given stays open."""
        if self._own:
            closed(self._cluster)

    def _get(self, message_key: str) -> Any:
        body = self._results.find(message_key)
        return Missing if body is None else self.encoder.decode(body)

    def _store(self, message_key: str, result: Any, ttl: int) -> None:
        self._results.store(message_key, self.encoder.encode(result), ttl / 1000)
