"""How much an etcd is asked: its members' own counters, looked at once a second."""

import re
import threading
import urllib.request
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from snowmelt.core.names import Address

EVERY_SECONDS = 1.0
BUSY_SECONDS = 10
"""Over so many looks the busiest time is told."""
REQUESTS = re.compile(
    r'^grpc_server_msg_received_total\{.*grpc_service="etcdserverpb\.(?:KV|Lease)".*\} (\S+)$',
    re.MULTILINE,
)


class Asked:
    """Counts what clients ask the members while it is open. One that is killed counts from 0."""

    def __init__(self, members: Sequence[Address]) -> None:
        self._seen = dict.fromkeys(members, 0.0)
        self._looks: list[float] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._looks.clear()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def mean(self) -> float:
        """A second."""
        return round(sum(self._looks) / max(1, len(self._looks)) / EVERY_SECONDS, 1)

    @property
    def busiest(self) -> float:
        """A second, in the ten in a row in which it was asked most."""
        starts = range(max(1, len(self._looks) - BUSY_SECONDS + 1))
        most = max(sum(self._looks[at : at + BUSY_SECONDS]) for at in starts)
        return round(most / BUSY_SECONDS / EVERY_SECONDS, 1)

    def _run(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            self._look()

    def _look(self) -> None:
        new = 0.0
        for member, before in self._seen.items():
            count = _count(member)
            if count is not None:
                new += count - before if count >= before else count
                self._seen[member] = count
        self._looks.append(new)


def _count(member: Address) -> float | None:
    """Of all requests to this member since it began; None when it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{member}/metrics", timeout=0.2) as told:
            text = told.read().decode()
    except OSError:
        return None
    return sum(float(value) for value in REQUESTS.findall(text))
