# Made of consuming_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""The loop over a queue; blocking: items one by one, and a thread that renews their leases."""

import sys
import threading
import time
from collections.abc import Iterator
from typing import Self

from snowmelt.client.coalescing.threads import ThreadCoalescer
from snowmelt.client.connection.forking import Origin, watch
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.items import Item, UpdateSender, items_under
from snowmelt.client.leases.leasing import leasing
from snowmelt.client.leases.leaving import GIVEN_UP, reason_left, reason_of
from snowmelt.client.leases.looping import PASSING, LoopDeadline, PrefetchSize
from snowmelt.client.leases.renewals import Hand, LeaseRenewals
from snowmelt.client.leases.renewer import LeaseRenewer
from snowmelt.client.leases.steps import BYTES_MAX, RELEASED, LeaseSteps, ReturnOptions
from snowmelt.client.leases.urgent_check import UrgentCheck
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.interval import Interval
from snowmelt.runtime.clock import steady_now


class BufferedSender(UpdateSender):
    """What a consumer sends: acknowledgements are gathered, all else goes at once."""

    def __init__(
        self, port: Port, steps: LeaseSteps, renewals: LeaseRenewals, codec: ValueCodec
    ) -> None:
        self.codec = codec
        self.port = port
        self.steps = steps
        self._renewals = renewals

    def done(self, delivered: LeasedItems, position: int, *, wait: bool) -> None:
        """Gathers the acknowledgement of one item."""
        if wait:
            run(self.port, self._renewals.ack_now(delivered, position))
        else:
            self._renewals.done(delivered, position)

    def ack(self, delivered: LeasedItems, where: Interval | None) -> None:
        """Gathers the acknowledgements of a whole delivery."""
        self._renewals.ack(delivered, where)

    def give_back(
        self, delivered: LeasedItems, where: Interval | None, how: ReturnOptions = RELEASED
    ) -> None:
        """Sends at once what goes back, so that others get it."""
        run(self.port, self._renewals.give_back(delivered, where, how))

    def extend(
        self, delivered: LeasedItems, lease: float | None = None, alone: Interval | None = None
    ) -> None:
        """Does nothing: the renewer extends every lease of a loop."""
        del lease, alone
        delivered.check_process()
        delivered.check_held(steady_now())

    def ended(self, delivered: LeasedItems, done: tuple[Interval, ...]) -> None:
        """Some were acknowledged in another way."""
        self._renewals.ended(delivered, done)


class ItemLoop:
    """Items one by one, for a `for`; `queue.consume` gives it.

    Close it, or use it in a `with`. The item in hand when the loop is left by an exception
    failed; `leaving.py` says how that is known. All else goes back as if it had not been taken.
    Threads may share a loop; when it ends for one, it ends for all. It ends with its cluster, too,
    and with the program.
    """

    __reduce__ = stays("send its items' bodies")
    _over = True  # until there is something to end

    def __init__(
        self,
        port: Port,
        steps: LeaseSteps,
        prefetch: int | None,
        timeout: float | None,
        codec: ValueCodec = PLAIN,
        puts: ThreadCoalescer | None = None,
    ) -> None:
        self._port = port
        self._steps = steps
        self._renewals = LeaseRenewals(steps)
        self._renewer = LeaseRenewer(port, self._renewals, self)
        self._gathering = BufferedSender(port, steps, self._renewals, codec)
        self._pace = PrefetchSize(prefetch)
        self._urgent_check = UrgentCheck(
            port, steps, self._renewals, self._gathering, self._pace, puts
        )
        self._pursuit = LoopDeadline(steps.name, timeout)
        self._items: Iterator[Item] = iter(())
        self._hand: Item | None = None
        self._around: BaseException | None = None
        self._origin = Origin()
        self._turn = threading.Lock()  # of the caller that asks for more
        self._over = False
        watch(self)

    def forked(self) -> None:
        """Nothing is given out in a child; the items are its parent's."""
        self._items = iter(())

    def __iter__(self) -> Self:
        self._around = sys.exception()
        return self

    def __next__(self) -> Item:
        for item in self._items:
            if not item.delivered.lost:  # else it is with others by now
                if self._renewals.now >= self._urgent_check.due:
                    return self._more(item)
                self._hand = item
                return item
        return self._more()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._end_by(error, reason_of(error))

    def close(self) -> None:
        """Ends it. In the handler of an exception that ended the loop, what was in hand failed.

        Raises when an acknowledgement was not taken (`LeaseLost`), or may not have been
        (`OutcomeUnknown`).
        """
        self.end(self._handled())

    def end(self, reason: str = "") -> None:
        """Once: acknowledges what is done, and gives back the rest. In a child it does nothing."""
        if self._over or self._origin.left:
            return
        self._over = True
        self._renewer.close(self._take_hand(), reason)

    def __del__(self) -> None:
        if not (self._over or self._origin.left or sys.is_finalizing()):
            reason = GIVEN_UP
            try:
                reason = reason_left(sys._getframe(1), self._handled())  # noqa: SLF001
            finally:  # that takes a moment, in which a signal may come
                self._renewer.drop(self._take_hand(), reason)

    def _handled(self) -> str:
        """Why what was in hand failed, if the exception that is being handled ended the loop."""
        error = sys.exception()
        return "" if error is self._around else reason_of(error)

    def _take_hand(self) -> Hand | None:
        hand, self._hand, self._items = self._hand, None, iter(())
        return None if hand is None else hand.held

    def _more(self, waits: Item | None = None) -> Item:
        """The first item of the next lease, or what another thread has got meanwhile.

        Or what is more urgent than one that waits here, if anything is.
        """
        self._origin.check("this loop", "call consume in this one")
        self._hand = None
        try:
            with self._turn:
                if waits is not None:
                    self._look(waits)
                for item in self._items:
                    if not item.delivered.lost:
                        self._hand = item
                        return item
                return self._next()
        except BaseException as error:
            self._end_by(error)
            raise

    def _end_by(self, error: BaseException | None, reason: str = "") -> None:
        """An error that ended the loop otherwise is raised first."""
        try:
            self.end(reason)
        except SnowmeltError as failure:
            if error is None or isinstance(error, StopIteration):
                raise failure from None
            error.add_note(str(failure))

    def _look(self, waits: Item) -> None:
        """Has this come next, or what is more urgent; unless the loop has ended."""
        here = [waits]
        if steady_now() >= self._urgent_check.due:  # else another thread has looked
            here = self._urgent_check.look(waits, self._items)
            self._urgent_check.fewer(here)
        if not self._over:
            self._items = iter([*here, *self._items])

    def _next(self) -> Item:
        delivered = None if self._over else self._ask()
        if delivered is None:
            raise StopIteration
        self._renewer.see()
        items = items_under(self._gathering, delivered)
        self._hand = item = next(items)
        self._items = items
        return item

    def _ask(self) -> LeasedItems | None:
        """The next lease; None when the time is over without one, or the loop."""
        pursuit, renewals, pace = self._pursuit, self._renewals, self._pace
        pursuit.begin()
        asked = steady_now()
        while True:
            most = pace.next(steady_now(), renewals.settled)
            self._urgent_check.before_get(pursuit.left)
            get = renewals.get(most, BYTES_MAX, pursuit.left)
            try:
                delivered = leasing(self._port, self._steps, get)
            except PASSING as error:
                time.sleep(pursuit.failed(error))
                continue
            if delivered is not None:
                pursuit.answered()
                now = steady_now()
                pace.came(asked, now, renewals.settled)
                self._urgent_check.got(now)
                return delivered
            if renewals.closing or pursuit.over():
                return None
