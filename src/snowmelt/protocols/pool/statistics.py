"""How one process' part in a pool is, in numbers."""

from snowmelt.core.instant import SECOND, Instant
from snowmelt.protocols.pool.access import AccessList
from snowmelt.protocols.pool.calls import PeerStatistics, ProducerCount
from snowmelt.protocols.pool.consumer import Consumer
from snowmelt.protocols.pool.holding import Holding
from snowmelt.protocols.pool.producer import Producer


def described(
    producer: Producer, consumer: Consumer, holding: Holding, access: AccessList, now: Instant
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
        given=lender.counts.given,
        settled=lender.counts.settled,
        given_back=lender.counts.given_back,
        expired=lender.counts.expired,
        probes_met=lender.counts.probes_met,
        probes_empty=lender.counts.probes_empty,
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
