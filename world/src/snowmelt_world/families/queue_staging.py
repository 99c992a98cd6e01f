"""One who says what it publishes, and plans some of it, as a Spark sink into several queues does.

A plan is written down, then each queue gets its share (here there is one), then the plan ends. What
was written down first stands: it is what is told again, and what is published. Something else under
a number that was published is refused.
"""

from collections.abc import Iterable
from typing import Final
from zlib import crc32

from snowmelt.client.connection.steps import Steps
from snowmelt.client.queue.options import ProducerSequence as Numbers
from snowmelt.client.queue.staging_steps import plan, publish
from snowmelt.core.errors import AlreadyPublished, NotStaged
from snowmelt.protocols.queue.api.calls import Planned, PublishStaged, Receipt, Share
from snowmelt_world.families.fifo_groups import SECONDS, Stager
from snowmelt_world.families.shipped import Interrupted
from snowmelt_world.judge.values import Put

PLANNED_SHARE: Final = 0.4
SAID_SHARE: Final = 0.7
CRASHES_SHARE: Final = 0.3


class Planner(Stager):
    """Of one queue: its plans are written down there, too, under another name."""

    delays = True

    def begin(self) -> None:
        """Like any who puts."""
        self._plans: dict[int, tuple[Share, ...]] = {}
        """As they were told."""
        self._ending: dict[int, None] = {}
        """Those that are to end, or did."""
        self._planner = Numbers(f"{self.name}.plans", names=self.new_name)
        super().begin()

    def puts(self, ask: PublishStaged) -> bool:
        """What ends a plan, or is to be refused, puts nothing."""
        batch = self._batches[ask.sequence]
        return ask.producer != self._planner.name and ask.digest in (0, _digest(batch))

    def publishes(self, batch: Put, receipts: list[Receipt]) -> Steps[None]:
        """It may say what it is, plan it, end the plan, and try something else under its number."""
        number, producer = batch.number, self.steps.producer
        digest = _digest(batch) if self._is_so(batch, "said", SAID_SHARE) else 0
        plans = self._is_so(batch, "planned", PLANNED_SHARE) and number not in self._ending
        named: Iterable[Receipt] = receipts
        if plans:
            planned = yield from self._plan(batch, receipts)
            named = planned.shares[0].receipts if planned.shares else receipts
            if self.chance.random() < CRASHES_SHARE:  # another stages anew, and ends what was begun
                receipts.clear()
                raise Interrupted
        try:
            yield from publish(self.steps, producer, named, number, SECONDS, digest)
        except NotStaged:
            if plans:  # what was planned is gone for good
                yield from self._end(number)
            raise
        if plans:
            yield from self._end(number)
        if digest and self.numbered and self.chance.random() < 0.2:
            yield from self._tries_another(batch, digest)

    def _is_so(self, batch: Put, what: str, share: float) -> bool:
        """The same each time."""
        return crc32(f"{what} {self.name} {batch.number}".encode()) < share * 2**32

    def _plan(self, batch: Put, receipts: list[Receipt]) -> Steps[Planned]:
        number, digest = batch.number, _digest(batch)
        share = Share(self.queue, tuple(receipts), digest)
        shares = (share,) if receipts else ()
        planned = yield from plan(self.steps, self._planner, shares, number, SECONDS, digest)
        if self.ledger.lapsed_since(batch.called):
            return planned
        before = self._plans.setdefault(number, planned.shares)
        if planned.ended or (before and before != planned.shares):
            text = f"{self.name} planned {before} under {number}, and is told {planned}"
            self.ledger.wrong(text, self.name)
        return planned

    def _end(self, number: int) -> Steps[None]:
        self._ending[number] = None
        yield from publish(self.steps, self._planner, (), number, SECONDS)

    def _tries_another(self, batch: Put, digest: int) -> Steps[None]:
        try:
            yield from publish(
                self.steps, self.steps.producer, (), batch.number, SECONDS, digest + 1
            )
        except AlreadyPublished:
            return
        if not self.ledger.lapsed_since(batch.called):
            text = f"{self.name} published something else under {batch.number}, and it was taken"
            self.ledger.wrong(text, self.name)


def _digest(batch: Put) -> int:
    return 1 + crc32(" ".join(batch.values).encode())
