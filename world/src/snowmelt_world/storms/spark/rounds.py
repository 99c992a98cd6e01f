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
from collections.abc import Iterable
from random import Random
from typing import Final

import msgspec

from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import SnowmeltError
from snowmelt_world.standalone import Standalone
from snowmelt_world.storms.spark.load import StreamLoad
from snowmelt_world.storms.spark.processes import kill
from snowmelt_world.storms.spark.program import StreamProgram
from snowmelt_world.storms.spark.replaying import replay
from snowmelt_world.storms.spark.standing import StreamStanding, forget, planned, standing

READY_SECONDS: Final = 240.0
START_GUESS: Final = 12.0
EARLY_SHARE: Final = 0.2
FORGET_SHARE: Final = 0.5
LOOK_SECONDS: Final = 0.005
WANTED_SECONDS: Final = 2.0
"""So long a process of the kind that is to be killed is waited for: some live for a moment only."""
LATER_SECONDS: Final = 2.0
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
ELSEWHERE: Final = ("executor", "machine")
OLDER_SHARE: Final = 0.5
AT_STAKE: Final = ("published", "unacknowledged")
TWIN_SHARE: Final = 0.3
TWIN_FIRST: Final = 2
BACK: Final = (1, 1, 1, 2, 3)
SPARE: Final = "checkpoint-spare"
REFUSALS: Final = ("GroupHeld", "AlreadyPublished", "LeaseLost")
FITS: Final = "checkpoint and queues fit after each kill"
ALIKE: Final = "a batch that is read once more has the same rows"
GOES_ON: Final = "a stream goes on, or is refused in a sentence"


class StreamRound(msgspec.Struct, kw_only=True):
    """What was done, and what came of it."""

    number: int
    kind: str
    early: bool
    trigger: str
    ready: float | None = None
    """After how many seconds the first micro-batch was done with."""
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
    left: bool = False
    """Whether something of it was killed a little later."""
    stands: StreamStanding | None = None
    broken: list[tuple[str, str]] = []
    """Promises that were, and in what."""

    def wrong(self, promise: str, text: str) -> None:
        self.broken.append((promise, f"round {self.number}: {text}"))


class StreamRounds:
    """The rounds of a run, one after the other."""

    def __init__(self, load: StreamLoad, cluster: Cluster, spark: Standalone | None = None) -> None:
        self.open = True
        """Whether more are to come; after the last nothing is left open."""
        self._load = load
        self._spark = spark
        self._kinds = KINDS if spark is None else CLUSTER_KINDS
        self._cluster = cluster
        self._after = load.settings.after
        self._older = load.settings.older
        self._spare = msgspec.structs.replace(load, logs=SPARE)
        self._chance = Random(load.setting.seed)
        self._ready = START_GUESS

    @property
    def undecided(self) -> bool:
        """Whether it is still to be seen from which checkpoint the stream goes on."""
        return self._spare.checkpoint.exists()

    def round(self, number: int) -> StreamRound:
        # A round's own, so that it is the same one whatever came of those before it.
        chance = self._chance = Random(f"{self._load.setting.seed}/{number}")
        made = StreamRound(
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
        if not made.broken:
            self._run(made)
        # Most is at stake when the last batch came out and the source has not heard of it.
        share = 1.0 if made.moment in AT_STAKE else OLDER_SHARE
        older = self._older and self.open and number + 1 != TWIN_FIRST
        if older and not made.broken and chance.random() < share:
            self._put_back(made)
        return made

    def _of_two(self, number: int) -> bool:
        """Whether two programs are to run in a round: in one of the first, for certain."""
        chance = Random(f"{self._load.setting.seed}/two/{number}")
        drawn = number == TWIN_FIRST or chance.random() < TWIN_SHARE
        return self._older and number > 1 and self.open and drawn

    def _run(self, made: StreamRound) -> None:
        log = self._load.folder / f"driver-{made.number}.log"
        with StreamProgram(self._load, made.trigger, log) as program:
            self._wait(made, program)
            self._kill(made, program)
            made.batches = program.batches
            if made.kind != "driver with Java":  # whose workers may still be at work meanwhile
                program.kill_all()
            self._look(made)

    # --- older states of its own ------------------------------------------------------------------

    def _go_on(self, made: StreamRound) -> None:
        """Finds out from which of the two checkpoints the stream goes on; the other is gone."""
        for turn in (1, 2):
            log = self._load.folder / f"driver-{made.number}-{turn}.log"
            with StreamProgram(self._load, made.trigger, log) as program:
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
        made.wrong(GOES_ON, f"it goes on from neither checkpoint: {told}")

    def _swap(self) -> None:
        aside = self._load.folder / "checkpoint-aside"
        self._load.checkpoint.rename(aside)
        self._spare.checkpoint.rename(self._load.checkpoint)
        aside.rename(self._spare.checkpoint)

    def _put_back(self, made: StreamRound) -> None:
        """Takes the last batches out of the logs; what was newest is kept aside."""
        _, last = planned(self._load)
        back = min(self._chance.choice(BACK), last)  # the first batch of all stays
        if back < 1:
            return
        shutil.copytree(self._load.checkpoint, self._spare.checkpoint)
        logs = self._chance.choice((("offsets", "commits"), ("offsets", "commits"), ("offsets",)))
        for batch in range(last, last - back, -1):
            for log in logs:
                forget(self._load, log, batch)
        made.put_back, made.lost_log = back, " and ".join(logs)

    def _run_two(self, made: StreamRound) -> None:
        """Two programs at once, for some seconds; which goes on is seen in the next round."""
        made.early = False
        made.twin = self._chance.choice(("a copy", "a copy", "nothing"))
        if made.twin == "a copy":
            shutil.copytree(self._load.checkpoint, self._spare.checkpoint)
        logs = [self._load.folder / f"driver-{made.number}{one}.log" for one in ("", "-twin")]
        with (
            StreamProgram(self._load, made.trigger, logs[0]) as program,
            StreamProgram(self._spare, made.trigger, logs[1]) as twin,
        ):
            made.ready = program.wait_ready(READY_SECONDS)
            twin.wait_ready(READY_SECONDS)
            time.sleep(self._chance.uniform(0, 2 * self._after))
            words = [program.ended(), twin.ended()]
            made.batches = program.batches + twin.batches
            program.kill_all()
            twin.kill_all()
        made.refused = [one for one in words if any(f"{name}:" in one for name in REFUSALS)]
        made.kind = "two at once"
        made.moment = "two at once"
        for one in words:
            if one and one not in made.refused:
                made.wrong(GOES_ON, f"of two, one ended otherwise: {one}")
        if made.twin == "nothing" and not words[1]:
            made.wrong(GOES_ON, "a second reader of the group was not refused")
        if made.twin == "nothing" or (words[1] and not words[0]):
            shutil.rmtree(self._spare.checkpoint, ignore_errors=True)
        elif words[0] or planned(self._spare) > planned(self._load):
            self._swap()

    # --- a kill -----------------------------------------------------------------------------------

    def _wait(self, made: StreamRound, program: StreamProgram) -> None:
        """Until the moment of the kill."""
        if made.early:
            left = self._chance.uniform(0.3, 1.1) * self._ready
        else:
            made.ready = program.wait_ready(READY_SECONDS)
            if made.ready is None:
                self._not_ready(made, program)
                return
            self._ready = made.ready
            left = self._chance.uniform(0, self._after)
        time.sleep(left)

    def _not_ready(self, made: StreamRound, program: StreamProgram) -> None:
        if program.code is None:
            text = f"no micro-batch within {READY_SECONDS:g} s"
            made.wrong(GOES_ON, f"{text}: {program.last_words()}")

    def _kill(self, made: StreamRound, program: StreamProgram) -> None:
        if program.code is not None:
            made.words = program.ended()
            made.kind = "none: it had ended by itself"
        elif made.kind == "everything":
            program.kill_all()
        elif made.kind == "driver with Java":
            program.kill_group()
        elif self._spark is not None and made.kind in ELSEWHERE:
            self._kill_elsewhere(made, program, self._spark)
        elif self._killed_one(made.kind, program):
            made.left = program.wait(self._chance.uniform(0, LATER_SECONDS)) is None
            made.words = program.ended()
        else:
            made.kind = "everything"

    def _kill_elsewhere(self, made: StreamRound, program: StreamProgram, spark: Standalone) -> None:
        """What Spark has to get over: in half the rounds it is seen to, else all ends soon."""
        worker = self._chance.choice(spark.workers)
        if made.kind == "executor":
            for executor in worker.children():
                kill(executor)
        else:
            spark.restart(worker)
        if self._chance.random() < 0.5:
            if not program.wait_on(MORE_BATCHES, READY_SECONDS):
                text = f"no batch within {READY_SECONDS:g} s of the kill"
                made.wrong(GOES_ON, f"{text}: {program.last_words()}")
        else:
            program.wait(self._chance.uniform(0, LATER_SECONDS))
        made.words = program.ended()
        made.left = program.code is None

    def _killed_one(self, role: str, program: StreamProgram) -> bool:
        end = time.monotonic() + WANTED_SECONDS
        while time.monotonic() < end and program.code is None:
            if program.kill_one(role, self._chance):
                return True
            time.sleep(LOOK_SECONDS)
        return False

    # --- what is found then -----------------------------------------------------------------------

    def _look(self, made: StreamRound) -> None:
        stands = standing(self._load, self._cluster)
        made.stands, made.moment = stands, stands.moment
        if not stands.exact:
            made.wrong(FITS, f"what is there does not fit: {stands}")
        if stands.may_replay and not made.broken:
            self._replay(made, stands)
        if stands.may_forget and self._chance.random() < FORGET_SHARE:
            forget(self._load, "commits", stands.batch)
            made.forgotten = True

    def _replay(self, made: StreamRound, stands: StreamStanding) -> None:
        try:
            found = replay(self._load, self._cluster, stands.batch)
        except SnowmeltError as error:
            made.wrong(ALIKE, f"batch {stands.batch} is not read: {error}")
            return
        made.replayed = found.rows
        if not found.alike:
            made.wrong(ALIKE, f"batch {stands.batch} has other rows now")


def counted(rounds: Iterable[StreamRound]) -> dict[str, int]:
    """How often which was killed, and in the middle of what the stream was stopped."""
    found: dict[str, int] = {}
    for made in rounds:
        left = ["killed: what was left of it"] if made.left else []
        for name in (f"killed: {made.kind}", *left, f"found: {made.moment}"):
            found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items()))
