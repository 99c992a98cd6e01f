"""Round after round: runs the program from its checkpoint, and kills it at a random moment.

Most rounds wait for the first micro-batch, then for up to some seconds; some don't, and kill while
the program begins. What is killed is mostly all of it at once; or the driver alone, while its
Python workers live on for a moment; or a single process, which Spark may get over by itself: then
what is left is killed a little later. After each round the checkpoint and the queues must fit.
"""

import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

import msgspec
from benchmarks.spark_chaos_parts.plan import SINK, SOURCE, Plan
from benchmarks.spark_chaos_parts.program import Program
from benchmarks.spark_chaos_parts.replaying import replay
from benchmarks.spark_chaos_parts.standing import Standing, forget_commit, standing

from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import SnowmeltError

READY_SECONDS: Final = 240.0
START_GUESS: Final = 12.0
EARLY_SHARE: Final = 0.2
FORGET_SHARE: Final = 0.5
DOWN_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 0.005
WANTED_SECONDS: Final = 2.0
"""So long a process of the kind that is to be killed is waited for: some live for a moment only."""
LATER_SECONDS: Final = 2.0
RECOVERY_SECONDS: Final = 8.0
"""Half of the kills that follow one of a node are put off by up to so much: work goes on first."""
TRIGGERS: Final = ("0 seconds", "800 milliseconds")
KINDS: Final = {
    "everything": 8,
    "driver with Java": 4,
    "java": 2,
    "driver": 1,
    "worker": 3,
    "source": 1,
    "sink": 2,
    "planner": 1,
}
"""What is killed, and how often beside the others."""
NODES: Final = ("node", "master of in", "master of out")


class Round(msgspec.Struct, kw_only=True):
    """What was done, and what came of it."""

    number: int
    kind: str
    early: bool
    trigger: str
    ready: float | None = None
    """After how many seconds the first micro-batch was done with."""
    node: str = ""
    """Which node was killed as well, and what it was."""
    batches: int = 0
    moment: str = ""
    """In the middle of what it was stopped (see `standing.py`)."""
    replayed: int | None = None
    """So many rows of its last batch were read again, the same ones that are in the sink."""
    forgotten: bool = False
    """Its last batch was taken out of the commit log."""
    words: str = ""
    """What the program said when it ended by itself."""
    stands: Standing | None = None


class Storm:
    """The rounds, and what they came to."""

    def __init__(
        self, plan: Plan, nodes: LocalCluster, cluster: Cluster, after: float, kill_nodes: bool
    ) -> None:
        self.rounds: list[Round] = []
        self.kills: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._plan = plan
        self._nodes = nodes
        self._cluster = cluster
        self._after = after
        self._kill_nodes = kill_nodes
        self._chance = Random()
        self._ready = START_GUESS
        self._file = (plan.folder / "rounds.jsonl").open("wb")

    def blow(self, rounds: int, told: Callable[[Round], None]) -> None:
        """All rounds; stops early when a promise is broken."""
        with self._file:
            for number in range(1, rounds + 1):
                made = self._round(number)
                self.rounds.append(made)
                self._file.write(msgspec.json.encode(made) + b"\n")
                self._file.flush()
                told(made)
                if self.wrong:
                    return

    def _round(self, number: int) -> Round:
        # A round's own, so that it is the same one whatever came of those before it.
        chance = self._chance = Random(f"{self._plan.seed}/{number}")
        made = Round(
            number=number,
            kind=chance.choices(list(KINDS), list(KINDS.values()))[0],
            early=number > 1 and chance.random() < EARLY_SHARE,  # the first is to get somewhere
            trigger=chance.choice(TRIGGERS),
        )
        log = self._plan.folder / f"driver-{number}.log"
        with Program(self._plan, made.trigger, log) as program:
            self._wait(made, program)
            self._kill(made, program)
            made.batches = program.batches
            if made.kind != "driver with Java":  # whose workers may still be at work meanwhile
                program.kill_all()
            self._look(made)
        return made

    def _wait(self, made: Round, program: Program) -> None:
        """Until the moment of the kill; in the middle of it a node is killed, if any is."""
        if made.early:
            left = self._chance.uniform(0.3, 1.1) * self._ready
        else:
            made.ready = program.wait_ready(READY_SECONDS)
            if made.ready is None:
                self._not_ready(made, program)
                return
            self._ready = made.ready
            left = self._chance.uniform(0, self._after)
        first = self._chance.uniform(0, left) if self._kill_nodes else left
        time.sleep(first)
        if self._kill_nodes:
            self._kill_node(made)
            left += self._chance.choice((0, RECOVERY_SECONDS)) * self._chance.random()
        time.sleep(left - first)

    def _not_ready(self, made: Round, program: Program) -> None:
        if program.code is None:
            text = f"round {made.number}: no micro-batch within {READY_SECONDS:g} s"
            self.wrong.append(f"{text}: {program.last_words()}")

    def _kill(self, made: Round, program: Program) -> None:
        if program.code is not None:
            made.words = program.ended()
            self.kills["none: it had ended by itself"] += 1
        elif made.kind == "everything":
            program.kill_all()
            self.kills[made.kind] += 1
        elif made.kind == "driver with Java":
            program.kill_group()
            self.kills[made.kind] += 1
        elif self._killed_one(made.kind, program):
            self.kills[made.kind] += 1
            if program.wait(self._chance.uniform(0, LATER_SECONDS)) is None:
                self.kills["what was left of it"] += 1
            made.words = program.ended()
        else:
            self.kills["everything"] += 1
            made.kind = "everything"

    def _killed_one(self, role: str, program: Program) -> bool:
        end = time.monotonic() + WANTED_SECONDS
        while time.monotonic() < end and program.code is None:
            if program.kill_one(role, self._chance):
                return True
            time.sleep(LOOK_SECONDS)
        return False

    def _kill_node(self, made: Round) -> None:
        """Kills a node, and starts it again on its disk."""
        kind = self._chance.choice(NODES)
        node = self._chosen(kind)
        made.node = f"{node.name}, {kind}"
        self.kills[kind] += 1
        node.kill()
        time.sleep(DOWN_SECONDS)
        node.start()

    def _chosen(self, kind: str) -> LocalNode:
        queue = {"master of in": SOURCE, "master of out": SINK}.get(kind)
        if queue is not None:
            try:
                master = self._cluster.fifo(queue).stats(timeout=5.0).master
            except SnowmeltError:  # it has none just now
                master = ""
            for node in self._nodes.nodes:
                if node.name == master.partition("/")[0]:
                    return node
        return self._chance.choice(self._nodes.nodes)

    def _look(self, made: Round) -> None:
        stands = standing(self._plan, self._cluster)
        made.stands, made.moment = stands, stands.moment
        if not stands.exact:
            self.wrong.append(f"round {made.number}: what is there does not fit: {stands}")
        for node in self._nodes.nodes:
            if not node.running:
                self.wrong.append(f"{node.name} ended by itself: {node.last_words()}")
                node.start()
        if stands.may_replay and not self.wrong:
            self._replay(made, stands)
        if stands.may_forget and self._chance.random() < FORGET_SHARE:
            forget_commit(self._plan, stands.batch)
            made.forgotten = True

    def _replay(self, made: Round, stands: Standing) -> None:
        try:
            found = replay(self._plan, self._cluster, stands.batch)
        except SnowmeltError as error:
            self.wrong.append(f"round {made.number}: batch {stands.batch} is not read: {error}")
            return
        made.replayed = found.rows
        if not found.alike:
            self.wrong.append(f"round {made.number}: batch {stands.batch} has other rows now")
