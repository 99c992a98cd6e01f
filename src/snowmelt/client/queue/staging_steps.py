"""Putting in two moves, as steps: many stage, one publishes all of it at once.

Staged batches are safe, and in no queue. `publish` names them and puts them at
the tail in one step; under a number that was published before it does nothing. What nobody names
is erased when its time is over. So work that is done by many, and perhaps done again, comes out
once: each attempt stages anew, and one list of receipts is published.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from snowmelt.client.connection.session import checked
from snowmelt.client.connection.steps import Sleep, Steps
from snowmelt.client.fifo.steps import ANSWER_SECONDS, FifoSteps, due_of
from snowmelt.client.leases.delivered import told_interval
from snowmelt.client.queue.bodies import PutItems, packed_headers
from snowmelt.client.queue.options import ProducerSequence, seconds_of
from snowmelt.core.errors import BadOption, Full
from snowmelt.core.instant import later, seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.asking import DIGEST_MAX
from snowmelt.protocols.queue.api.calls import (
    Plan,
    Planned,
    PublishStaged,
    Put,
    PutDone,
    Receipt,
    Share,
)
from snowmelt.protocols.queue.api.labels import Labels
from snowmelt.protocols.queue.api.settings import HOLD_LONGEST
from snowmelt.runtime.clock import seconds_until, steady_now

HOLD: Final = 6 * 3600.0
_FULL_PAUSE: Final = 0.2


def stage(
    queue: FifoSteps,
    producer: ProducerSequence,
    calls: Iterable[PutItems],
    headers: Mapping[str, str | bytes] | Labels | None,
    delay: float,
    hold: float,
    timeout: float,
) -> Steps[list[Receipt]]:
    """Stores batches; the receipts by which they can be published."""
    due = due_of(delay)
    holding = seconds_of("hold", hold, 1.0, HOLD_LONGEST / 1e9)
    receipts: list[Receipt] = []
    first = 0
    for items in calls:
        stop = first + items.count
        own = headers
        if isinstance(headers, Labels):
            own = headers.slice(first, stop).in_order(items.order)
        put = Put(
            queue.name,
            producer.name,
            producer.number(None),
            items.offsets,
            items.blob,
            packed_headers(own),
            due,
            hold=holding,
            runs=items.runs,
            keys=items.keys,
        )
        receipt: Receipt = yield from queue.ask_store(put, timeout, len(items.blob))
        receipts.append(receipt)
        first = stop
    return receipts


def publish(
    queue: FifoSteps,
    producer: ProducerSequence,
    receipts: Iterable[Receipt],
    sequence: int | None,
    timeout: float,
    digest: int = 0,
) -> Steps[tuple[Interval, ...]]:
    """Puts all that is named at the tail; where it lies, the most urgent first.

    That is (0, 0) when nobody knows any more.
    """
    named, told = tuple(receipts), _checked(digest)
    ask = PublishStaged(queue.name, producer.name, producer.number(sequence), named, told)
    end = later(steady_now(), seconds(max(0.0, checked(timeout))))
    while True:
        left = max(seconds_until(end), 0.0)
        try:
            done: PutDone = yield from queue.ask_about(ask, left or ANSWER_SECONDS)
        except Full:
            if left < _FULL_PAUSE:
                raise
            yield Sleep(_FULL_PAUSE)
        else:
            return tuple(map(told_interval, done.where))


def plan(
    queue: FifoSteps,
    producer: ProducerSequence,
    shares: Iterable[Share],
    sequence: int,
    timeout: float,
    digest: int,
) -> Steps[Planned]:
    """Writes down what goes into several queues; what was written down first is to be published."""
    told, number = _checked(digest), producer.number(sequence)
    ask = Plan(queue.name, producer.name, number, tuple(shares), told)
    planned: Planned = yield from queue.ask_about(ask, timeout)
    return planned


def _checked(digest: object) -> int:
    if type(digest) is int and 0 <= digest <= DIGEST_MAX:
        return digest
    raise BadOption("digest", digest, f"a whole number, 0 to {DIGEST_MAX}")
