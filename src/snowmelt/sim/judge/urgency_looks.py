"""What was said of a queue as a whole, judged at the end: how many there are, and what has a rank.

Only what is certain is counted against an answer: what was put before the question, and lies in no
view with nobody; what nobody has begun to acknowledge, or for a rank to get, before the answer. So
an element that comes and goes meanwhile may be in an answer or not.

A get that is asked meanwhile may have had as many as it asked for, whatever it is told in the end.
What has failed oftener than it was got by anybody who heard of it was leased before, for how long
nobody can say.

1. There are as many as are certain, leased and held ones too, or more.
2. What has a rank was put, and is not known to be gone; no more certain ones are before it than its
   rank allows, and as many may be there up to it as its rank says.
3. Nothing has a rank only where fewer are certain.
"""

from collections import Counter
from collections.abc import Iterator
from math import ceil

from snowmelt.core.instant import Instant
from snowmelt.sim.judge.copies import Told
from snowmelt.sim.judge.urgency import Selection, UrgencyLedger
from snowmelt.sim.judge.values import FOR_EVER, Put


def judge_looks(ledger: UrgencyLedger) -> None:
    """Raises `Broken` for an answer that can't be."""
    if ledger.excuses.names:
        return
    looks = _Looks(ledger)
    for one in ledger.stands:
        certain = list(looks.there(one.called, one.returned))
        if len(certain) > one.total:
            text = f"{one.total} are there, it was said, and {len(certain)} are, {certain[0]} too"
            ledger.wrong(text, one.process)
    for selection in ledger.selections:
        looks.selected(selection)


class _Looks:
    def __init__(self, ledger: UrgencyLedger) -> None:
        self._ledger = ledger
        self._done: dict[str, int] = {}
        """When somebody began to acknowledge each, the first time."""
        self._ended: dict[str, int] = {}
        """When that was answered."""
        self._got: dict[str, int] = {}
        """When each was got the first time, at the earliest."""
        for ack in ledger.acks:
            for value in map(str, ack.values):
                self._done[value] = min(ack.called, self._done.get(value, FOR_EVER))
                end = FOR_EVER if ack.returned is None else ack.returned
                self._ended[value] = min(end, self._ended.get(value, FOR_EVER))
        known: Counter[str] = Counter()
        for got in sorted(ledger.gets, key=lambda each: each.called):
            for value, failures in zip(got.values, got.failures, strict=True):
                at = got.called if failures <= known[value] else 0
                self._got[value] = min(at, self._got.get(value, FOR_EVER))
                known[value] += 1

    def there(self, called: Instant, returned: Instant) -> Iterator[str]:
        """What is in the queue from before a question until after its answer, for certain."""
        ledger = self._ledger
        if any(begun <= returned for begun, _, _ in ledger.purged):
            return
        for put in ledger.puts:
            if not put.told or put.returned is None or put.returned > called:
                continue
            for value, place in zip(put.values, put.places, strict=False):
                told = Told(place, put.called, put.returned)
                gone = self._done.get(value, FOR_EVER) <= returned
                if not gone and not ledger.keepers.lost(told) and not ledger.keepers.absent(told):
                    yield value

    def selected(self, one: Selection) -> None:
        """Rules 2 and 3."""
        ledger = self._ledger
        lost = any(get.called <= one.returned for get in ledger.lost_gets)
        there = () if lost else self.there(one.called, one.returned)
        ready = [
            value
            for value in there
            if self._got.get(value, FOR_EVER) > one.returned and not self._put(value).due
        ]
        may = [
            value
            for put in ledger.puts
            if put.called <= one.returned
            for value in put.values
            if self._ended.get(value, FOR_EVER) >= one.called
        ]
        least, most = one.rank, one.rank
        if one.share is not None:
            least, most = (max(1, ceil(one.share * len(row))) for row in (ready, may))
        out = sum(
            get.asked
            for get in ledger.gets
            if get.called <= one.returned and one.called <= get.returned
        )
        if not one.value:
            if ready and len(ready) - out >= least:
                text = f"nothing has rank {one.rank or one.share}, it was said; {ready[0]} is there"
                ledger.wrong(text, one.process)
            return
        here = self._key(one.value)
        before = [value for value in ready if value != one.value and self._key(value) < here]
        upto = [value for value in may if self._key(value) <= here]
        if len(before) - out >= most or len(upto) < least:
            text = f"{one.value} has rank {one.rank or one.share}, it was said"
            ledger.wrong(f"{text}; {len(before)} to {len(upto) - 1} are before it", one.process)

    def _put(self, value: str) -> Put:
        return self._ledger.by_value[value]

    def _key(self, value: str) -> tuple[int, int]:
        """Its priority; those that are alike may stand in any order here."""
        put = self._put(value)
        key = put.priority(value)
        return (-key if self._ledger.terms.largest_first else key), 0
