"""What anybody can see of the nodes while they are attacked: a sample each half second."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from http.client import OK, HTTPConnection, HTTPException
from pathlib import Path
from typing import Final, Self

import msgspec

from snowmelt.core.errors import SnowmeltError
from snowmelt.runtime.statistics import NodeStatistics
from snowmelt_world.attack.setting import AttackSetting, Target
from snowmelt_world.attack.speaking import connected

EACH_SECONDS: Final = 0.5
ASK_SECONDS: Final = 5.0
PAGE: Final = 4_096


class Sample(msgspec.Struct, frozen=True):
    """One node at one moment. What can't be seen is None."""

    at: float
    node: str
    lives: bool
    memory: int | None = None
    disk: int | None = None
    turn: float | None = None
    """The longest turn of its loop since it began, in seconds of its thread's time."""
    turn_event: str = ""
    began: float | None = None
    """When its process began, by our clock; another one is another process."""
    answers: bool | None = None
    """Whether its page tells a supervisor that it lives."""


class Watch:
    """Samples all nodes, in a thread, until it is left."""

    def __init__(self, setting: AttackSetting) -> None:
        self.samples: list[Sample] = []
        self._setting = setting
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._look_at, args=(one,), daemon=True)
            for one in setting.targets
        ]

    def __enter__(self) -> Self:
        for one in self._threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for one in self._threads:
            one.join(2 * ASK_SECONDS)

    def _look_at(self, target: Target) -> None:
        while not self._over.wait(EACH_SECONDS):
            self.samples.append(self.look(target))

    def look(self, target: Target) -> Sample:
        """How this node is now."""
        told = self._asked(target)
        now = time.monotonic()
        return Sample(
            at=now,
            node=target.name,
            lives=runs(target) if target.pid else told is not None,
            memory=_memory(target.pid) if target.pid else None,
            disk=_disk(Path(target.folder)) if target.folder else None,
            turn=told.longest_turn_cpu if told else None,
            turn_event=told.longest_turn_event if told else "",
            began=now - told.seconds if told else None,
            answers=_answers(target) if target.http else None,
        )

    def _asked(self, target: Target) -> NodeStatistics | None:
        url = f"snowmelt://{target.address}/{self._setting.cluster}"
        with (
            suppress(SnowmeltError),
            connected(url, self._setting.honest) as cluster,
        ):
            return cluster.statistics(timeout=ASK_SECONDS)
        return None


def runs(target: Target) -> bool:
    """Whether its process has not ended; one that others run may live."""
    if not target.pid:
        return True
    try:
        state = Path(f"/proc/{target.pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _answers(target: Target) -> bool:
    with suppress(OSError, HTTPException):
        line = HTTPConnection(target.host, target.http, timeout=ASK_SECONDS)
        try:
            line.request("GET", "/livez")
            return line.getresponse().status == OK
        finally:
            line.close()
    return False


def _memory(pid: int) -> int | None:
    """Bytes that are in memory, and its own."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    return None


def _disk(folder: Path) -> int:
    """Bytes that its files take."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(OSError):
            total += file.stat().st_blocks * 512
    return total


def of(samples: Sequence[Sample], node: str, begin: float, end: float) -> Iterator[Sample]:
    """Those of one node in a while."""
    return (one for one in samples if one.node == node and begin <= one.at < end)
