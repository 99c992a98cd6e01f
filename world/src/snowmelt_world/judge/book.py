"""What is common to the ledgers of all orders: what went in, what came out, what is excused."""

from collections.abc import Sequence
from typing import NoReturn

from snowmelt.core.instant import Instant
from snowmelt_world.check.history import Ended, Operation
from snowmelt_world.judge.agreed import Agreed
from snowmelt_world.judge.values import FASTEST_PPM, MANY, Came, Put, Terms
from snowmelt_world.world import Broken


class Book:
    """One queue, as its clients know it."""

    def __init__(
        self, queue: str, terms: Terms, *, leaps: Sequence[Instant] = (), early: int = 0
    ) -> None:
        self.queue = queue
        self.terms = terms
        """As they were when it was made."""
        self.agreed = Agreed(terms)
        self.leaps = leaps
        """When steady clocks leap: leases of that time may be over sooner."""
        self.early = early
        """So much ahead of the world's date a node may be."""
        self.called: list[tuple[Instant, Instant, bool]] = []
        """When each call was made, and answered; and whether it put."""
        self.drained: Instant | None = None
        self.puts: list[Put] = []
        self.by_value: dict[str, Put] = {}
        self.acks: list[Operation] = []
        self.redriven: Instant | None = None
        self.doomed = False
        """Whether anybody said that what failed is not to be delivered again."""

    @property
    def calls(self) -> int:
        return len(self.called)

    def wrong(self, sentence: str, subject: str) -> NoReturn:
        raise Broken(f"{self.queue}: {sentence}", subject)

    def asked(self, put: Put) -> None:
        """It is about to be put, perhaps."""
        self.puts.append(put)
        self.by_value.update(dict.fromkeys(put.values, put))

    def refused(self, put: Put, why: str, at: Instant) -> None:
        """It is not in the queue, says the queue, and never will be."""
        if put.ended is not Ended.SUCCEEDED:
            put.ended, put.returned, put.why = Ended.FAILED, at, why

    def had_room(self, put: Put, at: Instant) -> bool:
        """Whether there was room for it all the while, for certain, until it was refused."""
        most = self.agreed.least_items(put.called, at)
        done = {
            value
            for ack in self.acks
            for value in ack.values
            if ack.returned is not None and ack.returned < put.called
        }
        others = [one for one in self.puts if one is not put and one.called <= at]
        there = [one for put in others if put.ended is not Ended.FAILED for one in put.values]
        return len([one for one in there if one not in done]) + len(put.values) <= most

    def is_in(self, put: Put, at: Instant) -> None:
        """It is in the queue, says the queue; the first time counts."""
        if put.ended is not Ended.SUCCEEDED:
            put.ended, put.returned = Ended.SUCCEEDED, at

    def put_of(self, came: Came) -> Put:
        """Who put what a node showed, with these headers."""
        put = self.by_value.get(came.value)
        if put is None:
            where = came.place.position
            self.wrong(f"{came.value!r} at {where} was never put", came.value[:20])
        if came.headers != put.headers:
            self.wrong(f"{came.value} came with other headers", came.value)
        return put

    def not_refused(self, put: Put, value: str) -> None:
        """An item of it was shown."""
        if put.ended is Ended.FAILED:
            self.wrong(f"{value} was refused ({put.why}), and is in the queue", value)

    def slack(self, at: Instant) -> int:
        """So much may a date of a node be off by then."""
        return at * FASTEST_PPM // 1_000_000 + self.early

    def leapt(self, since: Instant, until: Instant) -> bool:
        """Whether a clock leapt meanwhile; or just before, unnoticed by a timer."""
        return any(since <= one <= until for one in self.leaps)

    def redriving(self, at: Instant) -> None:
        """The dead, if there can be any, come back as if they had never failed."""
        if self.redriven is None and (self.doomed or self.agreed.least_deliveries() < MANY):
            self.redriven = at
