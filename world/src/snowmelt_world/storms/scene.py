"""Everything of a run to which something can be done, and who of it plays which part just now."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Final

import msgspec

from snowmelt.cli.local import HERE, LocalCluster, LocalHost, LocalNode
from snowmelt_world.storms.crowd import ClientProcess, StormCrowd
from snowmelt_world.storms.disks import ImageDisk
from snowmelt_world.storms.etcd import MEMBERS, EtcdMembers
from snowmelt_world.storms.faults import ETCD, LEADER, NODE
from snowmelt_world.storms.links import StormLinks

ASK_SECONDS: Final = 0.3


class Victim(msgspec.Struct, frozen=True):
    """Who is hit by a fault, and why it is this one."""

    who: str
    """A node, a member of etcd, or a client: one life of it, or all, of what is done to links."""
    part: str
    of: str = ""
    fence: int = 0

    @property
    def home(self) -> str:
        """All lives of a client are at one place.

        >>> Victim("worker-3-1", "holder").home, Victim("n7", "node").home
        ('worker-3', 'n7')
        """
        return "-".join(self.who.split("-")[:2])


class Scene:
    """The processes of a run, by name."""

    def __init__(
        self,
        cluster: LocalCluster,
        nodes: int,
        links: StormLinks | None = None,
        disks: dict[str, ImageDisk] | None = None,
        etcd: EtcdMembers | None = None,
    ) -> None:
        self.cluster = cluster
        self.nodes = {node.name: node for node in cluster.nodes[:nodes]}
        """Those that are in the cluster; more may join."""
        self.spare = cluster.nodes[nodes:]
        self.links = links
        self.disks = disks or {}
        self.etcd = etcd
        self.crowd: StormCrowd | None = None
        """Once its processes are started."""

    def home(self, name: str) -> LocalHost:
        """Where a process of this name is to be started."""
        return self.links.home(name) if self.links is not None else HERE

    def processes(self) -> Iterator[tuple[str, int]]:
        """Names and numbers of all nodes and clients that run."""
        if self.crowd is not None:
            yield from self.crowd.processes()
        for node in list(self.nodes.values()):
            if node.running:
                yield node.name, node.pid

    @property
    def clients(self) -> dict[str, ClientProcess]:
        """Those at work, but who is asked to leave, by the name of their life."""
        running = self.crowd.running if self.crowd is not None else []
        return {one.life.name: one for one in running if not one.leaving}

    def playing(self, part: str, chance: Random) -> Sequence[Victim] | None:
        """Who plays a part that every run has, in the order of a draw; None if a family has it."""
        if part == LEADER:
            return list(self._leader(chance))
        if part == NODE:
            names = [name for name, node in self.nodes.items() if node.running]
        elif part == ETCD:
            names = list(MEMBERS) if self.etcd is not None else []
        elif self.crowd is not None and any(one.life.role == part for one in self.crowd.members):
            names = [name for name, one in self.clients.items() if one.life.role == part]
        else:
            return None
        return [Victim(name, part) for name in chance.sample(names, len(names))]

    def standing(self, chance: Random) -> list[LocalNode]:
        """The nodes that run, in the order of a draw."""
        running = [node for node in self.nodes.values() if node.running]
        return chance.sample(running, len(running))

    def pid(self, who: str) -> int:
        if who in self.nodes:
            return self.nodes[who].pid
        if who in MEMBERS and self.etcd is not None:
            return self.etcd.pid(who)
        return self._member(who).pid

    def kill(self, who: str) -> None:
        if who in self.nodes:
            self.nodes[who].kill()
        elif who in MEMBERS and self.etcd is not None:
            self.etcd.kill(who)
        else:
            self._member(who).kill()

    def running(self, who: str) -> bool:
        return self.nodes[who].running if who in self.nodes else self._member(who).running

    def leave(self, who: str) -> None:
        """Asks a node, or a client, to end in order."""
        if who in self.nodes:
            os.kill(self.nodes[who].pid, signal.SIGTERM)
        else:
            member = self._member(who)
            member.leaving = True
            member.tell(2)

    def ended_badly(self, who: str) -> str:
        """What was wrong with the end of one that was asked to."""
        if who not in self.nodes:
            return self._member(who).ended(0)
        node = self.nodes[who]
        if node.code in (0, -signal.SIGTERM):  # the latter before it had begun
            return ""
        return f"{who} ended with {node.code}: {node.last_words()}"

    def again(self, who: str) -> None:
        """Starts it again."""
        if who in self.nodes:
            self.nodes[who].start()
        elif who in MEMBERS and self.etcd is not None:
            self.etcd.start(who)
        else:
            assert self.crowd is not None
            self.crowd.again(self._member(who).life)

    def stop(self, who: str) -> None:
        """It stands still, and does not know it."""
        os.kill(self.pid(who), signal.SIGSTOP)

    def go_on(self, who: str) -> None:
        """It goes on, if it was not killed meanwhile."""
        with suppress(ProcessLookupError):
            os.kill(self.pid(who), signal.SIGCONT)

    def join(self) -> str:
        """One more node starts, on an empty disk."""
        node = self.spare.pop(0)
        self.nodes[node.name] = node
        node.start()
        return node.name

    def _member(self, who: str) -> ClientProcess:
        assert self.crowd is not None
        return next(one for one in self.crowd.members if one.life.name == who)

    def _leader(self, chance: Random) -> Iterator[Victim]:
        """Who decides on the members, by the word of one that answers."""
        for node in self.standing(chance):
            status = node.status(ASK_SECONDS)
            if status is not None and status.view is not None:
                name = status.view.coordinator
                if name in self.nodes and self.nodes[name].running:
                    yield Victim(name, LEADER)
                return
