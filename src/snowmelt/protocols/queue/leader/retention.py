"""What waits for longer than a queue keeps it ends.

1. What is ready or dead, and was put before so long, ends. What is leased, or a group's, stays with
   who has it; when it comes back it ends. So does what is delayed, when it is due.
2. None ends early. Ages are those of marks (`put_times.py`, rule 5). They are looked at each
   thirtieth of the time, or each minute. So an item ends a tenth of the time and three seconds
   later at most.
3. What is put with a delay of that time or longer would never be given: it is refused.
4. A step ends `AT_ONCE` items at most. The leader's wall clock counts, as it does for delays.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Final

from snowmelt.core.instant import SECOND, Duration, Instant, later
from snowmelt.core.interval import Interval
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.state.state import QueueState, remove

SHARE: Final = 30
LONGEST: Final = 60 * SECOND
AT_ONCE: Final = 10_000


def too_late(outbox: Outbox, home: Assignment, due: int) -> Declined | None:
    """Why what is due then can't be put (rule 3)."""
    kept = home.settings.retention
    if not kept or outbox.moment(due) - outbox.wall < kept:
        return None
    text = f"delay is longer than queue {home.queue!r} keeps an item: retention={kept / SECOND:g}"
    return Declined("BadOption", text)


def age_out(state: QueueState, old: Iterable[Interval], most: int) -> bool:
    """Ends up to so many of these that are ready or dead; whether that were all."""
    gone: list[Interval] = []
    for where in chain.from_iterable(
        chain(state.ready.within(one), state.dead.within(one)) for one in old
    ):
        gone.append(where.split(most)[0] if where.size > most else where)
        most -= gone[-1].size
        if not most:
            break
    state.counts.aged += remove(state, gone)
    return most > 0


class Retention:
    """Of one queue, in one term."""

    def __init__(self, outbox: Outbox, home: Assignment, state: QueueState) -> None:
        self._outbox = outbox
        self._state = state
        self._kept = home.settings.retention
        self._each = Duration(min(max(self._kept // SHARE, SECOND), LONGEST))
        self._look_at = Instant(0)

    def tick(self) -> None:
        """Ends what is old, and looks again after a while."""
        if not self._kept:
            return
        outbox, state = self._outbox, self._state
        if self._look_at <= outbox.now:
            old = state.times.before(outbox.wall - self._kept, outbox.wall)
            all_ended = age_out(state, old, AT_ONCE)
            self._look_at = later(outbox.now, self._each) if all_ended else outbox.now
        outbox.wake(self._look_at)
