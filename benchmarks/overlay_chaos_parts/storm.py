"""What is done to nodes and to processes of clients, one after the other, up to three at a time."""

import heapq
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from random import Random
from typing import Final

import msgspec
from benchmarks.chaos.injuries import go_on, stop
from benchmarks.chaos.journals import Journal, now
from benchmarks.overlay_chaos_parts.crowd import Crowd, Member
from benchmarks.overlay_chaos_parts.plan import QUEUE, Plan

import snowmelt
from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.core.errors import SnowmeltError

LOOK_SECONDS: Final = 0.05
AT_ONCE: Final = 3
ANCHOR_SHARE: Final = 1 / 3
ASK_SECONDS: Final = 1.0
DOWN_SECONDS: Final = 0.5
AWAY_SECONDS: Final = (0.5, 5.0)
"""For how long one that left in order stays away."""
STOPPED_SECONDS: Final = (0.5, 15.0)
FROZEN_SECONDS: Final = (0.5, 3.0)
"""Longer than a lease."""
IN_VIEW_SECONDS: Final = 60.0
"""So long a node that is back may take to be in a view, on a machine that is busy."""
BACK_SECONDS: Final = 4.0
"""After so long in a view a node has heard what it missed."""
LEAVE_SECONDS: Final = 60.0


class Kind(StrEnum):
    """What may be done."""

    KILL = "kill"
    STOP = "stop"
    LEAVE = "leave"
    CLIENT_KILL = "client-kill"
    CLIENT_STOP = "client-stop"


class Event(msgspec.Struct, frozen=True):
    """A line of `events.jsonl`."""

    at: int
    wall: float
    event: str
    whose: str


class Storm:
    """What is done, and what went wrong beside."""

    def __init__(self, crowd: Crowd, cluster: LocalCluster, plan: Plan) -> None:
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._crowd = crowd
        self._cluster = cluster
        self._plan = plan
        self._chance = Random(plan.seed)
        self._hurt: set[str] = set()
        """Nodes, and homes of processes, to which something is done."""
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._journal = Journal(plan.folder / "events.jsonl")

    def blow(self, seconds: float, every: float, kinds: Sequence[Kind]) -> None:
        """Does something every so many seconds, with 0 never, and lets all heal in the end."""
        begin = time.monotonic()
        end = begin + seconds
        following = begin + every if every else end
        with self._journal:
            while time.monotonic() < end or self._agenda:
                self._look()
                while self._agenda and (
                    self._agenda[0][0] <= time.monotonic() or time.monotonic() >= end
                ):
                    heapq.heappop(self._agenda)[2]()
                if following <= time.monotonic() < end:
                    following += every
                    if len(self._hurt) < AT_ONCE:
                        self._strike(self._chance.choice(kinds))
                time.sleep(LOOK_SECONDS)

    def _strike(self, kind: Kind) -> None:
        if kind in (Kind.CLIENT_KILL, Kind.CLIENT_STOP):
            free = [one for one in self._crowd.running if one.life.home not in self._hurt]
            if free:
                member = self._chance.choice(free)
                self._begin(kind, member.life.home)
                (self._kill_clients if kind is Kind.CLIENT_KILL else self._stop_clients)(member)
            return
        node = self._drawn(kind)
        if node is not None:
            self._begin(kind, node.name)
            act = {Kind.KILL: self._kill, Kind.STOP: self._stop, Kind.LEAVE: self._leave}[kind]
            act(node)

    def _drawn(self, kind: Kind) -> LocalNode | None:
        """A node, often the anchor; the founder, which decides on views, does not leave."""
        free = [one for one in self._cluster.nodes if one.running and one.name not in self._hurt]
        if kind is Kind.LEAVE:
            free = [one for one in free if one is not self._cluster.nodes[0]]
        hurt = sum(one.name in self._hurt for one in self._cluster.nodes)
        if not free or hurt >= max(1, self._plan.replicas - 1):
            return None
        if self._chance.random() < ANCHOR_SHARE:
            named = self._anchor()
            anchors = [one for one in free if one.name == named]
            if anchors:
                self.done[f"{kind} of the anchor"] += 1
                return anchors[0]
        return self._chance.choice(free)

    def _anchor(self) -> str:
        try:
            with snowmelt.connect(self._plan.url) as cluster:
                return cluster.priority(QUEUE).stats(timeout=ASK_SECONDS).anchor
        except SnowmeltError:
            return ""

    # --- nodes ------------------------------------------------------------------------------------

    def _kill(self, node: LocalNode) -> None:
        node.kill()
        self._later(DOWN_SECONDS, lambda: self._start(node))

    def _start(self, node: LocalNode) -> None:
        node.start()
        self._returned(node, time.monotonic() + IN_VIEW_SECONDS)

    def _returned(self, node: LocalNode, end: float) -> None:
        """Until it is in a view it counts as away: so no others are struck who know what it missed.

        How long that takes the machine decides: by a fixed time, as many as there are copies would
        be away at once on a busy one, and what was acknowledged may be forgotten then, as promised.
        """
        status = node.status(ASK_SECONDS)
        if (status is None or status.standing != "current") and time.monotonic() < end:
            self._later(LOOK_SECONDS, lambda: self._returned(node, end))
        else:
            self._later(BACK_SECONDS, lambda: self._end(node.name))

    def _stop(self, node: LocalNode) -> None:
        pid = node.pid
        stop(pid)
        self._later(self._chance.uniform(*STOPPED_SECONDS), lambda: self._go_on(pid, node))

    def _leave(self, node: LocalNode) -> None:
        os.kill(node.pid, signal.SIGTERM)
        self._left(node, time.monotonic() + LEAVE_SECONDS)

    def _left(self, node: LocalNode, end: float) -> None:
        """Once it has: others are struck meanwhile."""
        if node.running and time.monotonic() < end:
            self._later(LOOK_SECONDS, lambda: self._left(node, end))
            return
        if node.running:
            self.wrong.append(f"{node.name} did not leave in {LEAVE_SECONDS:g} s")
            node.kill()
        self._note("has left", node.name)
        self._later(self._chance.uniform(*AWAY_SECONDS), lambda: self._start(node))

    # --- clients ----------------------------------------------------------------------------------

    def _kill_clients(self, member: Member) -> None:
        member.kill()
        self._later(DOWN_SECONDS, lambda: self._again(member))

    def _again(self, member: Member) -> None:
        self._crowd.again(member)
        self._end(member.life.home)

    def _stop_clients(self, member: Member) -> None:
        member.stop()
        seconds = self._plan.lease + self._chance.uniform(*FROZEN_SECONDS)
        self._later(seconds, lambda: self._resume(member))

    def _resume(self, member: Member) -> None:
        member.resume()
        self._end(member.life.home)

    # --- all of them ------------------------------------------------------------------------------

    def _go_on(self, pid: int, node: LocalNode) -> None:
        with suppress(ProcessLookupError):
            go_on(pid)
        self._returned(node, time.monotonic() + IN_VIEW_SECONDS)

    def _begin(self, kind: Kind, whose: str) -> None:
        self.done[kind] += 1
        self._hurt.add(whose)
        self._note(kind, whose)

    def _end(self, whose: str) -> None:
        self._hurt.discard(whose)
        self._note("is over", whose)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (time.monotonic() + seconds, next(self._order), act))

    def _look(self) -> None:
        """Who ends without having been asked is a broken promise, told once."""
        for member in self._crowd.members:
            if not member.running and not member.life.killed:
                words = member.ended(0)
                if words and words not in self.wrong:
                    self.wrong.append(words)
        for node in self._cluster.nodes:
            if not node.running and node.name not in self._hurt:
                self.wrong.append(f"{node.name} ended by itself: {node.last_words()}")
                self._note("ended by itself", node.name)
                node.start()

    def _note(self, event: str, whose: str) -> None:
        self._journal.add(Event(now(), time.time(), event, whose))
