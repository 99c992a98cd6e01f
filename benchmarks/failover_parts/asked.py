"""How much an etcd is asked: its members' own counters, looked at once a second."""

import re
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.chaos.looking import looking

from snowmelt.core.names import Address

EVERY_SECONDS = 1.0
BUSY_SECONDS = 10
"""Over so many looks the busiest time is told."""
REQUESTS = re.compile(
    r'^grpc_server_msg_received_total\{.*grpc_service="etcdserverpb\.(?:KV|Lease)".*\} (\S+)$',
    re.MULTILINE,
)


class Asked:
    """Counts what clients ask the members from look to look. One that is killed counts from 0."""

    def __init__(self, members: Sequence[Address]) -> None:
        self._seen = {member: _count(member) or 0.0 for member in members}
        self._looks: list[float] = []

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

    def look(self) -> None:
        """What is new since the last."""
        new = 0.0
        for member, before in self._seen.items():
            count = _count(member)
            if count is not None:
                new += count - before if count >= before else count
                self._seen[member] = count
        self._looks.append(new)


@contextmanager
def counted(members: Sequence[Address]) -> Iterator[Asked]:
    """While the `with` lasts."""
    asked = Asked(members)
    with looking(EVERY_SECONDS, asked.look):
        yield asked


def _count(member: Address) -> float | None:
    """Of all requests to this member since it began; None when it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{member}/metrics", timeout=0.2) as told:
            text = told.read().decode()
    except OSError:
        return None
    return sum(float(value) for value in REQUESTS.findall(text))
