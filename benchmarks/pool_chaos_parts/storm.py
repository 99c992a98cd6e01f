"""What is done to the processes: when who is killed, or leaves in order, and comes back.

All kills come first, and then those that leave: one that leaves hands its objects to others, and
were one of them killed later, nobody could tell from the journals what it had taken over.
"""

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

import msgspec
from benchmarks.pool_chaos_parts.crowd import Crowd, Member, Role

from snowmelt.cli.local import LocalNode

KILLS: Final = (0.05, 0.65)
"""From when to when, as shares of the whole time."""
LEAVES: Final = (0.75, 0.9)
DOWN_SECONDS: Final = 1.0
LEAVE_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 0.1


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many of each are killed, or leave."""

    producers: int
    consumers: int
    nodes: int
    leaving: int


class Storm:
    """What is done, and what went wrong beside."""

    def __init__(
        self, crowd: Crowd, nodes: list[LocalNode], folder: Path, seconds: float, chance: Random
    ) -> None:
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._crowd = crowd
        self._nodes = nodes
        self._chance = chance
        self._seconds = seconds
        self._down: list[LocalNode] = []
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._events = folder / "events.jsonl"

    def blow(self, counts: Counts) -> None:
        """All of it, at moments drawn by chance."""
        begin = time.monotonic()
        plans: tuple[tuple[int, tuple[float, float], Callable[[], None]], ...] = (
            (counts.producers, KILLS, lambda: self._kill(Role.PRODUCER)),
            (counts.consumers, KILLS, lambda: self._kill(Role.CONSUMER)),
            (counts.nodes, KILLS, self._kill_node),
            (counts.leaving, LEAVES, self._leave),
        )
        for count, (first, last), act in plans:
            for _ in range(count):
                share = self._chance.uniform(first, last)
                self._plan(begin + share * self._seconds, act)
        end = begin + self._seconds
        while time.monotonic() < end:
            self._look()
            while self._agenda and self._agenda[0][0] <= time.monotonic():
                heapq.heappop(self._agenda)[2]()
            time.sleep(max(0.0, min(LOOK_SECONDS, end - time.monotonic())))
        for _, _, act in sorted(self._agenda):  # somebody who was killed late
            act()

    def _plan(self, at: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (at, next(self._order), act))

    def _kill(self, role: Role) -> None:
        running = self._crowd.running(role)
        if not running:
            self.wrong.append(f"no {role.value} was there to be killed")
            return
        member = self._chance.choice(running)
        member.kill()
        self._note("killed", member.life.name)
        self.done[f"{role.value}s killed"] += 1
        self._plan(time.monotonic() + DOWN_SECONDS, lambda: self._again(member))

    def _leave(self) -> None:
        running = self._crowd.running(Role.PRODUCER)
        if not running:
            self.wrong.append("no producer was there to leave")
            return
        member = self._chance.choice(running)
        self._note("leaves", member.life.name)
        self.wrong += self._crowd.finish([member], 2, LEAVE_SECONDS)
        self.done["producers left in order"] += 1
        self._plan(time.monotonic() + DOWN_SECONDS, lambda: self._again(member))

    def _again(self, member: Member) -> None:
        self._note("started", self._crowd.again(member).life.name)

    def _kill_node(self) -> None:
        node = self._chance.choice([node for node in self._nodes if node.running])
        self._down.append(node)
        node.kill()
        self._note("killed", node.name)
        self.done["nodes killed"] += 1
        self._plan(time.monotonic() + DOWN_SECONDS, lambda: self._start_node(node))

    def _start_node(self, node: LocalNode) -> None:
        node.start()
        self._down.remove(node)
        self._note("started", node.name)

    def _look(self) -> None:
        """Who ends without having been asked is a broken promise, told once."""
        for member in self._crowd.members:
            if not member.running and not member.life.dead:
                words = member.ended(0)
                if words and words not in self.wrong:
                    self.wrong.append(words)
        for node in self._nodes:
            if not node.running and node not in self._down:
                self.wrong.append(f"{node.name} ended by itself: {node.last_words()}")
                self._down.append(node)

    def _note(self, event: str, name: str) -> None:
        line = {"at": time.monotonic_ns(), "wall": time.time(), "event": event, "name": name}
        with self._events.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
