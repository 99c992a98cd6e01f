"""Kills one node after another, whichever it is, and starts each again on its disk."""

import time
from collections import Counter
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

import msgspec
from benchmarks.chaos.recording import now

from snowmelt.cli.local import LocalCluster, LocalNode

DOWN_SECONDS = 0.5
LOOK_SECONDS = 0.1


class Storm:
    """What is done to the nodes, and what they do of themselves."""

    def __init__(self, cluster: LocalCluster, folder: Path, chance: Random) -> None:
        self.kills: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._nodes = cluster.nodes
        self._chance = chance
        self._file = (folder / "events.jsonl").open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def blow(self, seconds: float, every: float) -> None:
        """Kills a node every so many seconds; with 0 it only looks on."""
        begin = time.monotonic()
        end = begin + seconds
        following = begin + every if every else end
        while time.monotonic() < end:
            self._look()
            if time.monotonic() >= following:
                following += every
                self._strike(self._chance.choice(self._nodes))
            time.sleep(max(0.0, min(LOOK_SECONDS, end - time.monotonic())))

    def note(self, event: str, **more: object) -> None:
        """Writes an event down, for whoever reads the logs later."""
        line = {"at": now(), "wall": time.time(), "event": event, **more}
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()

    def _strike(self, node: LocalNode) -> None:
        self.note("killed", node=node.name, pid=node.pid)
        node.kill()
        self.kills[node.name] += 1
        time.sleep(DOWN_SECONDS)
        node.start()
        self.note("started", node=node.name, pid=node.pid)

    def _look(self) -> None:
        """A node that ended by itself is a broken promise; the run goes on with it."""
        for node in self._nodes:
            if not node.running:
                told = f"{node.name} ended by itself: {node.last_words()}"
                self.note("ended", node=node.name, told=told)
                self.wrong.append(told)
                node.start()
