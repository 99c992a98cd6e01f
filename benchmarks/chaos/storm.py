"""Injures one node, link, disk or client after another, and lets each heal in its time."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Final, Self

import msgspec
from benchmarks.chaos import injuries
from benchmarks.chaos.crowd import Crowd
from benchmarks.chaos.disks import Disk
from benchmarks.chaos.injuries import ONE_WAY, Injury, Kind
from benchmarks.chaos.links import Links
from benchmarks.chaos.recording import now

from snowmelt.cli.local import LocalCluster, LocalNode

LOOK_SECONDS: Final = 0.1
AT_ONCE: Final = 3
CURRENT: Final = "current"
NO_ROOM: Final = "No space left on device"
OF_A_NODE: Final = frozenset({Kind.KILL, Kind.STOP, Kind.FULL, Kind.FAIL})


class Storm:
    """What is done to a run, and what nodes do of themselves."""

    def __init__(
        self,
        cluster: LocalCluster,
        folder: Path,
        chance: Random,
        links: Links | None = None,
        disks: dict[str, Disk] | None = None,
    ) -> None:
        self.struck: Counter[str] = Counter()
        """How often which kind of injury was done."""
        self.wrong: list[str] = []
        self._nodes = {node.name: node for node in cluster.nodes}
        self._chance = chance
        self._links = links
        self._disks = disks or {}
        self._crowd: Crowd | None = None
        self._on: list[Injury] = []
        self._file = (folder / "events.jsonl").open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._heal()
        self._file.close()

    def blow(self, crowd: Crowd, seconds: float, every: float, kinds: Sequence[Kind]) -> None:
        """Does an injury every so many seconds, with 0 none, and heals all in the end."""
        self._crowd = crowd
        begin = time.monotonic()
        end = begin + seconds
        following = begin + every if every else end
        while time.monotonic() < end:
            self._look()
            self._end_those_over(time.monotonic())
            if time.monotonic() >= following:
                following += every
                if len(self._on) < AT_ONCE:
                    self._strike(self._chance.choice(kinds))
            time.sleep(max(0.0, min(LOOK_SECONDS, end - time.monotonic())))
        self._heal()

    def note(self, event: str, **more: object) -> None:
        """Writes an event down, for whoever reads the logs later."""
        line = {"at": now(), "wall": time.time(), "event": event, **more}
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()

    # --- an injury begins -------------------------------------------------------------------------

    def _strike(self, kind: Kind) -> None:
        injury = self._drawn(kind, time.monotonic() + injuries.lasting(kind, self._chance))
        if injury is None:  # whom it could be done to is injured already
            return
        self.struck[kind] += 1
        self.note("begins", kind=kind, whose=injury.whose, cuts=injury.cuts)
        self._on.append(injury)
        match kind:
            case Kind.KILL:
                self._nodes[injury.whose].kill()
            case Kind.STOP | Kind.FREEZE:
                injuries.stop(injury.pid)
            case Kind.CUT | Kind.SEVER:
                assert self._links is not None
                for cut in injury.cuts:
                    self._links.cut(*cut)
            case Kind.FULL:
                self._disks[injury.whose].fill()
            case Kind.FAIL:
                self._disks[injury.whose].fail()

    def _drawn(self, kind: Kind, until: float) -> Injury | None:
        chance, assert_crowd = self._chance, self._crowd
        assert assert_crowd is not None
        hurt = {one.whose for one in self._on}
        match kind:
            case Kind.FREEZE | Kind.SEVER:
                clients = {f"c{at}": pid for at, pid in enumerate(assert_crowd.pids)}
                free = [name for name in clients if name not in hurt]
                if not free:
                    return None
                whose = chance.choice(free)
                nodes = chance.sample(list(self._nodes), max(1, len(self._nodes) // 2))
                cuts = tuple(pair for one in nodes for pair in ((whose, one), (one, whose)))
                cuts = cuts if kind is Kind.SEVER else ()
                return Injury(kind=kind, whose=whose, until=until, pid=clients[whose], cuts=cuts)
            case Kind.CUT:
                one, other = chance.sample(list(self._nodes), 2)
                whose = f"{one}-{other}"
                if hurt & {whose, f"{other}-{one}"}:
                    return None
                both = () if chance.random() < ONE_WAY else ((other, one),)
                return Injury(kind=kind, whose=whose, until=until, cuts=((one, other), *both))
            case _:
                names = [*self._nodes]
                if kind is Kind.FULL:  # not of all: where nobody has room there is nothing to judge
                    names = names[1::2]
                free = [name for name in names if name not in hurt]
                if not free:
                    return None
                whose = chance.choice(free)
                return Injury(kind=kind, whose=whose, until=until, pid=self._nodes[whose].pid)

    # --- and ends ---------------------------------------------------------------------------------

    def _heal(self) -> None:
        self._end_those_over(float("inf"))

    def _end_those_over(self, at: float) -> None:
        for injury in [one for one in self._on if one.until <= at]:
            self._on.remove(injury)
            self._end(injury)
            self.note("ends", kind=injury.kind, whose=injury.whose)

    def _end(self, injury: Injury) -> None:
        match injury.kind:
            case Kind.KILL:
                self._nodes[injury.whose].start()
            case Kind.STOP | Kind.FREEZE:
                injuries.go_on(injury.pid)
            case Kind.CUT | Kind.SEVER:
                assert self._links is not None
                for cut in injury.cuts:
                    self._links.mend(*cut)
            case Kind.FULL:
                self._disks[injury.whose].free()
                if not self._nodes[injury.whose].running:
                    self._nodes[injury.whose].start()
            case Kind.FAIL:
                node = self._nodes[injury.whose]
                if node.running:
                    self._unnoticed(node)
                    node.kill()
                self._restored(node)

    def _look(self) -> None:
        """A node that ended by itself is a broken promise, but for one whose disk failed."""
        for node in self._nodes.values():
            if node.running:
                continue
            injury = next((one for one in self._on if one.whose == node.name), None)
            if injury is not None and injury.kind is Kind.KILL:
                continue
            if injury is not None and injury.kind is Kind.FULL and NO_ROOM in node.last_words():
                continue  # it was starting, and says so; it starts once there is room
            if injury is not None and injury.kind is Kind.FAIL:
                self.note("ended, since its disk failed", node=node.name, told=node.last_words())
                self.note("ends", kind=injury.kind, whose=injury.whose)
                self.struck["ended as its disk failed"] += 1
                self._on.remove(injury)
                self._restored(node)
                continue
            self._ended_by_itself(node)

    def _unnoticed(self, node: LocalNode) -> None:
        # One that is cut off writes nothing, and keeps nothing from others; one that is in a view
        # keeps its queues from them.
        status = node.status()
        if status is not None and status.standing == CURRENT:
            self.wrong.append(f"{node.name} did not notice that its disk fails")
        self.note("its disk failed unnoticed", node=node.name, status=status)

    def _restored(self, node: LocalNode) -> None:
        """Its failed disk is repaired, and it goes on with what was flushed."""
        self._disks[node.name].repair()
        node.start()

    def _ended_by_itself(self, node: LocalNode) -> None:
        told = f"{node.name} ended by itself: {node.last_words()}"
        self.note("ended", node=node.name, told=told)
        self.wrong.append(told)
        node.start()
