"""How one process' part in a pool is, in numbers."""

import msgspec

from snowmelt.core.instant import SECOND, Duration, Instant
from snowmelt.protocols.pool.access import AccessList
from snowmelt.protocols.pool.calls import PeerStatistics, ProducerCount
from snowmelt.protocols.pool.consumer import Consumer
from snowmelt.protocols.pool.holding import HeldLoans
from snowmelt.protocols.pool.introductions import PeerReport
from snowmelt.protocols.pool.producer import Producer
from snowmelt.protocols.pool.settings import PoolSettings


class Stopwatch:
    """How long something was so, all times together.

    >>> watch = Stopwatch()
    >>> for at, runs in ((0, True), (3, True), (5, False), (9, True)):
    ...     watch.show(runs, Instant(at))
    >>> watch.until(Instant(10))
    6
    """

    def __init__(self) -> None:
        self.runs = False
        self._total = 0
        self._since = Instant(0)

    def show(self, runs: bool, now: Instant) -> None:
        """It is so from now on, or is not."""
        if runs is not self.runs:
            self._total = self.until(now)
            self.runs, self._since = runs, now

    def until(self, now: Instant) -> Duration:
        return Duration(self._total + (now - self._since if self.runs else 0))


def described(
    producer: Producer, consumer: Consumer, holding: HeldLoans, access: AccessList, now: Instant
) -> PeerStatistics:
    """What has happened here so far, and what is here now."""
    lender, intake, wanted = producer.lender, producer.intake, consumer.counts
    weights = access.weights()
    known = tuple(
        ProducerCount(
            id=one,
            name=access.name(one),
            asked=wanted.asked.get(one, 0),
            had=wanted.had.get(one, 0),
            rate=access.rate(one),
            weight=weights.get(one, 0.0),
        )
        for one in access.known
    )
    return PeerStatistics(
        stock=lender.stock.count,
        stock_bytes=lender.stock.size,
        on_loan=lender.loans.count,
        in_line=len(lender.line),
        put=intake.put_count,
        **msgspec.structs.asdict(lender.counts),
        rate=intake.rate(now),
        blocked_seconds=intake.blocked / SECOND,
        requests=wanted.requests,
        hops=wanted.hops,
        tried_again=wanted.tried_again,
        got=wanted.got,
        waited_seconds=wanted.waited / SECOND,
        refused=wanted.refused,
        late=holding.late,
        producers=known,
    )


def reported(
    settings: PoolSettings,
    producer: Producer,
    consumer: Consumer,
    *,
    age: Duration,
    using: Duration,
    now: Instant,
) -> PeerReport:
    """The same in short, for whoever looks at the whole pool."""
    intake, counts = producer.intake, consumer.counts
    return PeerReport(
        age=age,
        buffers=settings.buffers,
        max_hops=settings.max_hops,
        fan_out=settings.fan_out,
        access=settings.access.kind.value,
        put=intake.put_count,
        put_bytes=intake.put_bytes,
        blocked=intake.blocked_until(now),
        gets=counts.gets,
        got=counts.got,
        probes=counts.hops,
        waited=counts.waited,
        using=using,
    )
