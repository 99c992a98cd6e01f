"""What is done to the processes: who is killed, stopped or slow, or leaves, and comes back.

All kills come first, and then those that leave: one that leaves hands its objects to others, and
were one of them killed later, nobody could tell from the journals what it had taken over.
"""

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, NamedTuple

import msgspec
from benchmarks.chaos.injuries import go_on, stop
from benchmarks.chaos.links import Links
from benchmarks.pool_chaos_parts.crowd import Crowd, Member, Role
from benchmarks.pool_chaos_parts.injured import EVENTS
from benchmarks.pool_chaos_parts.plan import Plan

from snowmelt.cli.local import LocalCluster, LocalNode

KILLS: Final = (0.05, 0.65)
"""From when to when, as shares of the whole time."""
INJURIES: Final = (0.05, 0.8)
LEAVES: Final = (0.75, 0.9)
STOPPED: Final = (1.0, 4.0)
"""Seconds longer than a lease that one stands still."""
SLOWED: Final = (4.0, 10.0)
BITS: Final = (8e6, 50e6)
"""A second, of a slow link: the largest objects take a good second, or some tenths."""
DOWN_SECONDS: Final = 1.0
LEAVE_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.1


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many of each are killed, and of all stopped and slow; and how many leave."""

    producers: int
    consumers: int
    nodes: int
    stops: int
    slows: int
    leaving: int


class Target(NamedTuple):
    """Who can be injured, be it a process of the pool or a node."""

    name: str
    home: str
    stop: Callable[[], None]
    resume: Callable[[], None]


class Storm:
    """What is done, and what went wrong beside."""

    def __init__(
        self, crowd: Crowd, cluster: LocalCluster, plan: Plan, seconds: float, wires: Links | None
    ) -> None:
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._crowd = crowd
        self._nodes = cluster.nodes
        self._chance = Random(plan.seed)
        self._lease = plan.lease
        self._wires = wires
        self._seconds = seconds
        self._down: list[LocalNode] = []
        self._injured: set[str] = set()
        """The homes of those that are stopped or slow."""
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._events = plan.folder / EVENTS

    def blow(self, counts: Counts) -> None:
        """All of it, at moments drawn by chance."""
        begin = time.monotonic()
        plans: tuple[tuple[int, tuple[float, float], Callable[[], None]], ...] = (
            (counts.producers, KILLS, lambda: self._kill(Role.PRODUCER)),
            (counts.consumers, KILLS, lambda: self._kill(Role.CONSUMER)),
            (counts.nodes, KILLS, self._kill_node),
            (counts.stops, INJURIES, self._stop),
            (counts.slows, INJURIES, self._slow),
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
        while self._agenda:  # who was killed late, or is stopped, slow or leaving still
            heapq.heappop(self._agenda)[2]()
            time.sleep(LOOK_SECONDS)

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
        free = [one for one in running if one.life.home not in self._injured]
        if not free:
            self.wrong.append("no producer was there to leave")
            return
        member = self._chance.choice(free)
        self._note("leaves", member.life.name)
        member.tell(2)
        self._injured.add(member.life.home)  # nothing else is done to it
        self._left(member, time.monotonic() + LEAVE_SECONDS)

    def _left(self, member: Member, end: float) -> None:
        """Once it has; others are stopped, and go on, meanwhile."""
        if member.running and time.monotonic() < end:
            self._plan(time.monotonic() + LOOK_SECONDS, lambda: self._left(member, end))
            return
        if member.running:
            self.wrong.append(f"{member.life.name} did not leave in {LEAVE_SECONDS:g} s")
        self.done["producers left in order"] += 1
        self._injured.remove(member.life.home)
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

    # --- stopped, and slow ------------------------------------------------------------------------

    def _stop(self) -> None:
        target = self._target()
        if target is None:
            return
        self._note("stopped", target.name)
        target.stop()
        seconds = self._lease + self._chance.uniform(*STOPPED)
        self.done["stopped"] += 1
        self._injured.add(target.home)
        self._plan(time.monotonic() + seconds, lambda: self._resume(target))

    def _resume(self, target: Target) -> None:
        self._injured.remove(target.home)
        target.resume()
        self._note("continued", target.name)

    def _slow(self) -> None:
        target = self._target()
        if target is None or self._wires is None:
            return
        self._note("slowed", target.home)
        self._wires.slow(target.home, int(self._chance.uniform(*BITS)))
        self.done["slow"] += 1
        self._injured.add(target.home)
        seconds = self._chance.uniform(*SLOWED)
        self._plan(time.monotonic() + seconds, lambda: self._quicken(target))

    def _quicken(self, target: Target) -> None:
        assert self._wires is not None
        self._injured.remove(target.home)
        self._wires.quicken(target.home)
        self._note("quickened", target.home)

    def _target(self) -> Target | None:
        """A producer, a consumer or a node, each kind as likely, to which nothing is done yet."""
        members = [
            [
                Target(one.life.name, one.life.home, one.stop, one.resume)
                for one in self._crowd.running(role)
            ]
            for role in Role
        ]
        nodes = [
            Target(node.name, node.name, partial(stop, node.pid), partial(go_on, node.pid))
            for node in self._nodes
            if node.running
        ]
        kinds = [
            [one for one in kind if one.home not in self._injured] for kind in (*members, nodes)
        ]
        kinds = [kind for kind in kinds if kind]
        return self._chance.choice(self._chance.choice(kinds)) if kinds else None

    # --- what is seen of it -----------------------------------------------------------------------

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
