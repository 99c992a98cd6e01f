"""The cluster behind a backend: one for all threads of a process."""

import os
import threading
from typing import Any, Final

from snowmelt_doors.places import Place, opened, ranked
from snowmelt_doors.results import DAY, ResultTable

OPTIONS: Final = ("where", "token", "user", "namespace", "retention", "outbox")


class Connected:
    """A cluster or a folder, its queues and its records."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.place: Place = opened(options["where"], **_access(options))
        self.namespace: str = options.get("namespace", "django")
        retention = options.get("retention", DAY)
        self.records = ResultTable(self.place, f"{self.namespace}-results", retention)
        self._queues: dict[str, Any] = {}

    def name(self, queue: str) -> str:
        """The name in the cluster of one of Django's queues."""
        return f"{self.namespace}.{queue}"

    def queue(self, name: str) -> Any:
        """The queue of the cluster behind one of Django's."""
        if name not in self._queues:
            self._queues[name] = ranked(self.place, self.name(name))
        return self._queues[name]


def _access(options: dict[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("token", "user") if options.get(name)}


_CONNECTED: dict[str, Connected] = {}
_OPENING: list[threading.Lock] = [threading.Lock()]


def connected(options: dict[str, Any]) -> Connected:
    """What these options mean, opened once in a process."""
    where = options["where"]
    folder = not str(where).startswith("snowmelt://")
    key = repr((sorted(options.items(), key=str), os.getpid() if folder else 0))
    with _OPENING[0]:
        if key not in _CONNECTED:
            _CONNECTED[key] = Connected(options)
        return _CONNECTED[key]


def _forked() -> None:
    _OPENING[0] = threading.Lock()


os.register_at_fork(after_in_child=_forked)
