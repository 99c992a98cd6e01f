"""Round after round: runs the program from its checkpoint, and kills it at a random moment.

Most rounds wait for the first micro-batch, then for up to some seconds; some don't, and kill while
the program begins. What is killed is mostly all of it at once; or the driver alone, while its
Python workers live on for a moment; or a single process, which Spark may get over by itself: then
what is left is killed a little later. After each round the checkpoint and the queues must fit.

With `older`, the program is shown older states of its own: its checkpoint is put back by one or
more batches, or Spark's logs lose their end, or a second program works on a copy of the checkpoint,
or on none, at the same time. What was newest is kept aside. The next run goes on, or is refused in
a sentence; then it is run again from what was kept, as the page on Spark says.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

import msgspec
from benchmarks.spark_chaos_parts.executors import ELSEWHERE, kill_elsewhere
from benchmarks.spark_chaos_parts.plan import SINK, SOURCES, Plan
from benchmarks.spark_chaos_parts.program import Program
from benchmarks.spark_chaos_parts.replaying import replay
from benchmarks.spark_chaos_parts.standing import Standing, forget, planned, standing

from snowmelt.cli.local import LocalCluster, LocalNode
from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import SnowmeltError
from snowmelt.spark.standalone import Standalone

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
PAUSING: Final = "5 minutes"
"""The trigger of half the rounds with older states: what came out is not acknowledged for long."""
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
CLUSTER_KINDS: Final = {
    "executor": 4,
    "machine": 3,
    "driver with Java": 2,
    "java": 2,
    "driver": 1,
    "source": 1,
    "sink": 1,
}
"""The same on a cluster of Spark; a machine is a worker of it, with its executor."""
MORE_BATCHES: Final = 2
"""So many come after an executor or a machine was killed, in half of those rounds."""
NODES: Final = ("node", "master of in", "master of out")
OLDER_SHARE: Final = 0.5
AT_STAKE: Final = ("published", "unacknowledged")
TWIN_SHARE: Final = 0.3
TWIN_FIRST: Final = 2
BACK: Final = (1, 1, 1, 2, 3)
SPARE: Final = "checkpoint-spare"
REFUSALS: Final = ("GroupHeld", "AlreadyPublished", "LeaseLost")


class Ways(msgspec.Struct, frozen=True):
    """What else is done."""

    after: float
    """Seconds to a kill at most."""
    kill_nodes: bool
    older: bool


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
    put_back: int = 0
    """By so many batches its checkpoint was put back for the next one."""
    lost_log: str = ""
    """Which logs lost their end for that; both, or the one of offsets."""
    twin: str = ""
    """From what a second program worked at the same time."""
    refused: list[str] = []
    """What programs said that were refused."""
    words: str = ""
    """What the program said when it ended by itself."""
    stands: Standing | None = None


class Storm:
    """The rounds, and what they came to."""

    def __init__(
        self,
        plan: Plan,
        nodes: LocalCluster,
        cluster: Cluster,
        ways: Ways,
        spark: Standalone | None = None,
    ) -> None:
        self.rounds: list[Round] = []
        self.kills: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._plan = plan
        self._nodes = nodes
        self._spark = spark
        self._kinds = KINDS if spark is None else CLUSTER_KINDS
        self._cluster = cluster
        self._after = ways.after
        self._kill_nodes = ways.kill_nodes
        self._older = ways.older
        self._spare = msgspec.structs.replace(plan, logs=SPARE)
        self._last = 0
        self._chance = Random()
        self._ready = START_GUESS
        self._file = (plan.folder / "rounds.jsonl").open("wb")

    def blow(self, rounds: int, told: Callable[[Round], None]) -> None:
        """All rounds; stops early when a promise is broken."""
        self._last = rounds  # after which nothing is left open
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
            kind=chance.choices(list(self._kinds), list(self._kinds.values()))[0],
            early=number > 1 and chance.random() < EARLY_SHARE,  # the first is to get somewhere
            trigger=chance.choice(TRIGGERS),
        )
        if self._older and chance.random() < OLDER_SHARE:
            made.trigger, made.early = PAUSING, False
        if self._spare.checkpoint.exists():
            made.early = False  # first it is to be seen which of the two goes on
            self._go_on(made)
        elif self._of_two(number):
            self._run_two(made)
            return made
        if not self.wrong:
            self._run(made)
        # Most is at stake when the last batch came out and the source has not heard of it.
        share = 1.0 if made.moment in AT_STAKE else OLDER_SHARE
        older = self._older and number < self._last and number + 1 != TWIN_FIRST
        if older and not self.wrong and chance.random() < share:
            self._put_back(made)
        return made

    def _of_two(self, number: int) -> bool:
        """Whether two programs are to run in a round: in one of the first, for certain."""
        chance = Random(f"{self._plan.seed}/two/{number}")
        drawn = number == TWIN_FIRST or chance.random() < TWIN_SHARE
        return self._older and 1 < number < self._last and drawn

    def _run(self, made: Round) -> None:
        log = self._plan.folder / f"driver-{made.number}.log"
        with Program(self._plan, made.trigger, log) as program:
            self._wait(made, program)
            self._kill(made, program)
            made.batches = program.batches
            if made.kind != "driver with Java":  # whose workers may still be at work meanwhile
                program.kill_all()
            self._look(made)

    # --- older states of its own ------------------------------------------------------------------

    def _go_on(self, made: Round) -> None:
        """Finds out from which of the two checkpoints the stream goes on; the other is gone."""
        for turn in (1, 2):
            log = self._plan.folder / f"driver-{made.number}-{turn}.log"
            with Program(self._plan, made.trigger, log) as program:
                ready = program.wait_ready(READY_SECONDS)
                words = program.ended() if ready is None else ""
            if ready is not None:
                shutil.rmtree(self._spare.checkpoint)
                return
            if not any(f"{name}:" in words for name in REFUSALS):
                break
            made.refused.append(words)
            self._swap()
        told = [*made.refused, words or f"then no micro-batch within {READY_SECONDS:g} s"]
        self.wrong.append(f"round {made.number}: it goes on from neither checkpoint: {told}")

    def _swap(self) -> None:
        aside = self._plan.folder / "checkpoint-aside"
        self._plan.checkpoint.rename(aside)
        self._spare.checkpoint.rename(self._plan.checkpoint)
        aside.rename(self._spare.checkpoint)

    def _put_back(self, made: Round) -> None:
        """Takes the last batches out of the logs; what was newest is kept aside."""
        _, last = planned(self._plan)
        back = min(self._chance.choice(BACK), last)  # the first batch of all stays
        if back < 1:
            return
        shutil.copytree(self._plan.checkpoint, self._spare.checkpoint)
        logs = self._chance.choice((("offsets", "commits"), ("offsets", "commits"), ("offsets",)))
        for batch in range(last, last - back, -1):
            for log in logs:
                forget(self._plan, log, batch)
        made.put_back, made.lost_log = back, " and ".join(logs)

    def _run_two(self, made: Round) -> None:
        """Two programs at once, for some seconds; which goes on is seen in the next round."""
        made.early = False
        made.twin = self._chance.choice(("a copy", "a copy", "nothing"))
        if made.twin == "a copy":
            shutil.copytree(self._plan.checkpoint, self._spare.checkpoint)
        logs = [self._plan.folder / f"driver-{made.number}{one}.log" for one in ("", "-twin")]
        with (
            Program(self._plan, made.trigger, logs[0]) as program,
            Program(self._spare, made.trigger, logs[1]) as twin,
        ):
            made.ready = program.wait_ready(READY_SECONDS)
            twin.wait_ready(READY_SECONDS)
            time.sleep(self._chance.uniform(0, 2 * self._after))
            words = [program.ended(), twin.ended()]
            made.batches = program.batches + twin.batches
            program.kill_all()
            twin.kill_all()
        made.refused = [one for one in words if any(f"{name}:" in one for name in REFUSALS)]
        self.kills["two at once"] += 1
        made.moment = "two at once"
        for one in words:
            if one and one not in made.refused:
                self.wrong.append(f"round {made.number}: of two, one ended otherwise: {one}")
        if made.twin == "nothing" and not words[1]:
            self.wrong.append(f"round {made.number}: a second reader of the group was not refused")
        if made.twin == "nothing" or (words[1] and not words[0]):
            shutil.rmtree(self._spare.checkpoint, ignore_errors=True)
        elif words[0] or planned(self._spare) > planned(self._plan):
            self._swap()

    # --- a kill -----------------------------------------------------------------------------------

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
        elif self._spark is not None and made.kind in ELSEWHERE:
            self._kill_elsewhere(made, program, self._spark)
        elif self._killed_one(made.kind, program):
            self.kills[made.kind] += 1
            if program.wait(self._chance.uniform(0, LATER_SECONDS)) is None:
                self.kills["what was left of it"] += 1
            made.words = program.ended()
        else:
            self.kills["everything"] += 1
            made.kind = "everything"

    def _kill_elsewhere(self, made: Round, program: Program, spark: Standalone) -> None:
        """What Spark has to get over: in half the rounds it is seen to, else all ends soon."""
        self.kills[made.kind] += 1
        kill_elsewhere(made.kind, spark, self._chance)
        if self._chance.random() < 0.5:
            if not program.wait_on(MORE_BATCHES, READY_SECONDS):
                text = f"round {made.number}: no batch within {READY_SECONDS:g} s of the kill"
                self.wrong.append(f"{text}: {program.last_words()}")
        else:
            program.wait(self._chance.uniform(0, LATER_SECONDS))
        made.words = program.ended()
        self.kills["what was left of it"] += program.code is None

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
        queue = {"master of in": self._chance.choice(SOURCES), "master of out": SINK}.get(kind)
        if queue is not None:
            try:
                master = self._cluster.fifo(queue).stats(timeout=5.0).leader
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
            forget(self._plan, "commits", stands.batch)
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
