"""One process or link at a time is hurt, and heals before the next is."""

import time
from collections import Counter
from random import Random

import msgspec
from benchmarks.chaos import injuries
from benchmarks.chaos.links import Links
from benchmarks.chaos.recording import now
from benchmarks.failover_parts.etcd_members import MEMBERS, EtcdMembers

from snowmelt.cli.local import LocalCluster, LocalNode

KINDS = ("kill leader", "stop leader", "kill node", "stop node", "kill etcd", "stop etcd", "cut")
OFTEN = (4, 3, 2, 2, 1, 1, 2)
"""How often which: the leader most."""


class Blow(msgspec.Struct, frozen=True):
    """What was done to whom, from when to when, by the clock of the history."""

    kind: str
    whose: str
    since: int
    until: int


class Striking:
    """Draws and does what is done to a run."""

    def __init__(
        self, cluster: LocalCluster, etcd: EtcdMembers, links: Links | None, chance: Random
    ) -> None:
        self.blows: list[Blow] = []
        self.wrong: list[str] = []
        self._cluster = cluster
        self._etcd = etcd
        self._links = links
        self._chance = chance

    @property
    def struck(self) -> dict[str, int]:
        """How often which kind was done."""
        return dict(sorted(Counter(one.kind for one in self.blows).items()))

    def run(self, seconds: float, away: float, rest: float) -> None:
        """Hurts and heals by turns, until the time is over."""
        end = time.monotonic() + seconds
        time.sleep(rest)
        while time.monotonic() + away + rest < end and not self.wrong:
            (kind,) = self._chance.choices(KINDS, OFTEN)
            if kind == "cut" and self._links is None:
                continue
            self._strike(kind, away)
            time.sleep(rest)
            self._look()

    def _strike(self, kind: str, away: float) -> None:
        how, _, what = kind.partition(" ")
        since, long = now(), self._chance.uniform(away / 2, away) if how != "kill" else away
        if how == "cut":
            names = [*(one.name for one in self._cluster.nodes), *MEMBERS]
            whose = "-".join(self._chance.sample(names, 2))
            self._cut(whose, long)
        elif what == "etcd":
            whose = self._chance.choice(MEMBERS)
            self._hurt_etcd(how, whose, long)
        else:
            node = self._node(leads=what == "leader")
            whose = node.name
            self._hurt_node(how, node, long)
        self.blows.append(Blow(kind, whose, since, now()))

    def _cut(self, whose: str, long: float) -> None:
        assert self._links is not None
        one, other = whose.split("-")
        ways = (one, other), (other, one)
        for way in ways:
            self._links.cut(*way)
        time.sleep(long)
        for way in ways:
            self._links.mend(*way)

    def _hurt_etcd(self, how: str, whose: str, long: float) -> None:
        if how == "kill":
            self._etcd.kill(whose)
            time.sleep(long)
            self._etcd.start(whose)
        else:
            self._etcd.stop(whose)
            time.sleep(long)
            self._etcd.go_on(whose)

    def _hurt_node(self, how: str, node: LocalNode, long: float) -> None:
        if how == "kill":
            node.kill()
            time.sleep(long)
            node.start()
        else:
            injuries.stop(node.pid)
            time.sleep(long)
            injuries.go_on(node.pid)

    def _node(self, *, leads: bool) -> LocalNode:
        for one in self._chance.sample(self._cluster.nodes, len(self._cluster.nodes)):
            status = one.status()
            if status is not None and status.view is not None:
                rest = [n for n in self._cluster.nodes if n.name != status.view.coordinator]
                (leader,) = [n for n in self._cluster.nodes if n not in rest]
                return leader if leads else self._chance.choice(rest)
        return self._chance.choice(self._cluster.nodes)

    def _look(self) -> None:
        """All who were started go on by themselves."""
        for node in self._cluster.nodes:
            if not node.running:
                self.wrong.append(f"{node.name} ended by itself: {node.last_words()}")
