"""Queues that are backed up while they are used, and queues made of that, under all faults.

Some use a queue by the shipped steps. A keeper reads backups of it meanwhile, and makes a queue of
each, under a name of its own. That may break off, and goes on then. When the load is over it ends
what it began, drains each of these queues, and deletes it. What may not be seen is in
`judge/backups.py`.
"""

from random import Random
from typing import Final

from msgspec.structs import replace

from snowmelt.client.backup.file import VERSION, Head, Piece
from snowmelt.client.backup.steps import Making, Reading
from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.steps import LeaseUpdate
from snowmelt.client.queue.deleting import delete
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.core.batch import Batch
from snowmelt.core.errors import NoSuchQueue
from snowmelt.core.instant import SECOND, Instant, seconds
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.state.segments import unstored
from snowmelt_world.families.fifo_actors import PATIENCE, Stage
from snowmelt_world.families.programs import FAILURES, pause
from snowmelt_world.families.queue_deleted import BYTES, User
from snowmelt_world.judge.backups import BackupLedger, Copied
from snowmelt_world.world import World

SECONDS: Final = PATIENCE / SECOND
LOST_AFTER: Final = 8
"""So often it tries in vain before it gives up a queue: the node of its one copy may be gone."""


class Source(User):
    """Uses the queue that is backed up."""

    def delete(self, *, if_empty: bool, lost: bool) -> None:
        """It stays."""
        del if_empty, lost


class Kept:
    """A backup that was read, and the queue that is made of it."""

    def __init__(self, name: str, head: Head, pieces: list[Piece], copied: Copied) -> None:
        self.name = name
        self.head = head
        self.pieces = pieces
        self.copied = copied
        self.done = False
        """Whether it was told that all of it is there."""
        self.drained = False


class Keeper(User):
    """Reads backups, and makes queues of them."""

    ledger: BackupLedger

    def begin(self, times: list[Instant]) -> None:
        self.kept: list[Kept] = []
        for at in times:
            self.stage.world.at(at, lambda: self.run(self._keeps()))

    def _keeps(self) -> Steps[None]:
        name = f"{self.ledger.queue}r{len(self.kept)}-{self.chance.getrandbits(20)}"
        reading, pieces = Reading(self.ledger.queue, self.chance), list[Piece]()
        called, lost = self.now, 0
        try:
            yield from reading.begin(SECONDS)
            begun = self.now
            while True:
                read = yield from reading.piece(SECONDS)
                if read is None:
                    break
                pieces.append(read.piece)
                lost += read.lost
                yield pause(self.some(seconds(1)))
            if self.chance.random() < 0.7:
                yield from reading.end(SECONDS)
        except FAILURES:
            return
        copied = Copied(called, begun, _values(pieces), lost)
        self.ledger.copied(copied)
        head = Head(VERSION, self.ledger.queue, 1, reading.backup, reading.settings, 1)
        kept = Kept(name, head, pieces, copied)
        self.kept.append(kept)
        yield from self._make(kept)

    def _make(self, kept: Kept) -> Steps[None]:
        """As far as it comes."""
        making = Making(kept.head, kept.name, None, self.chance)
        try:
            yield from making.begin(SECONDS)
            for piece in kept.pieces:
                yield from making.piece(piece, SECONDS)
                if self.chance.random() < 0.1:
                    return  # its process ends
            yield from making.finish(SECONDS)
        except FAILURES:
            return
        kept.done = True

    # --- at the end -------------------------------------------------------------------------------

    def close(self) -> Steps[None]:
        """Ends, drains and deletes what it made."""
        for kept in self.kept:
            vain = 0
            while not kept.done and self.ledger.keeps and vain < LOST_AFTER:
                yield pause(seconds(1))
                yield from self._make(kept)
                vain += 1
            while kept.done and not kept.drained and vain < LOST_AFTER:
                yield pause(seconds(1))
                yield from self._drain(kept)
                vain += 1
            while not (yield from self._gone(kept.name)):
                yield pause(seconds(1))

    def _drain(self, kept: Kept) -> Steps[None]:
        steps = FifoSteps(kept.name, None, ProducerSequence(), self.chance)
        came: list[str] = []
        try:
            while True:
                answer = yield from steps.ask_lease(
                    7, BYTES, Wait(1.0), None, ahead=False, before=-1
                )
                if answer is None or not answer.leased.token:
                    break
                some = yield from steps.delivered(answer.leased, answer.asked, BYTES)
                if some is None:
                    continue
                came += [
                    bytes(body).rstrip(b".").decode()
                    for part in some.parts
                    for body in Batch(part.offsets, part.blob)
                ]
                yield from steps.tell(some, LeaseUpdate(some.token, done=some.positions))
        except NoSuchQueue:
            kept.drained = True
            return
        except FAILURES:
            kept.copied.in_part += came
            return
        kept.drained = True
        self.ledger.restored(kept.copied, came)

    def _gone(self, name: str) -> Steps[bool]:
        try:
            yield from delete(name, False, True, SECONDS)
        except NoSuchQueue:
            return True
        except FAILURES:
            return False
        return True


class Backups:
    """All of a life."""

    def __init__(self, stage: Stage, ledgers: list[BackupLedger]) -> None:
        self._stage = stage
        self.ledgers = ledgers
        self._keepers: list[Keeper] = []
        self._open: dict[str, None] = {}

    def add(
        self, world: World, ledger: BackupLedger, dice: Random, nodes: int, end: Instant
    ) -> None:
        """Those who use one queue, and its keeper."""
        settings = QueueSettings(replicas=dice.randint(1, nodes), lease=seconds(3))
        settings = replace(settings, inline_max=dice.choice((0, 100, 1 << 20)))
        for number in range(2):
            name = f"{ledger.queue}u{number}"
            user = Source(self._stage, name, Random(dice.random()), ledger, settings)
            times = [Instant(dice.randrange(end)) for _ in range(dice.choice((8, 20, 40)))]
            user.begin(sorted(times))
        keeper = Keeper(self._stage, f"{ledger.queue}k", Random(dice.random()), ledger, None)
        keeper.begin(sorted([Instant(dice.randrange(end)) for _ in range(dice.choice((1, 3, 6)))]))
        self._open[ledger.queue] = None

        def close() -> None:
            if keeper.busy:
                world.at(Instant(world.now + seconds(1)), close)
            else:
                keeper.run(self._closes(keeper))

        world.at(end, close)

    def _closes(self, keeper: Keeper) -> Steps[None]:
        yield from keeper.close()
        del self._open[keeper.ledger.queue]

    @property
    def unsettled(self) -> str:
        """What is not over yet."""
        for queue in self._open:
            return f"backups of {queue} are not restored and drained yet"
        return ""


def _values(pieces: list[Piece]) -> list[str]:
    """What lives of it, in its order."""
    found: list[tuple[int, str]] = []
    for lot in [one for piece in pieces for one in piece.lots]:
        segment = unstored(lot.body, lot.stop)
        bodies = list(Batch(segment.offsets, segment.blob))
        for part in lot.alive:
            for where in part:
                value = bytes(bodies[where - lot.start]).rstrip(b".").decode()
                found.append((where, value))
    return [value for _, value in sorted(found)]
