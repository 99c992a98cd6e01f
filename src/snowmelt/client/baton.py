"""A baton as a program holds it: a lock that heals, whose holder carries a value. Blocking."""

import threading
from types import TracebackType
from typing import Self

from snowmelt.client.baton_keeping import Keeper
from snowmelt.client.baton_steps import TURN_SECONDS, Hold, Want, statuses
from snowmelt.client.blocking import BlockingClient
from snowmelt.client.clients import Clients
from snowmelt.client.holding import Holding
from snowmelt.client.session import TIMEOUT, checked
from snowmelt.client.staying import stays
from snowmelt.client.steps import run
from snowmelt.core.batch import Buffer
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import later, seconds
from snowmelt.protocols.baton.calls import BatonStatus
from snowmelt.protocols.baton.settings import baton_name
from snowmelt.runtime.clock import seconds_until, steady_now


class Held(Holding):
    """The baton while it is yours. `Baton.acquire` gives it; release it, or use it in a `with`.

    One that is only dropped stays held until the cluster is closed. A thread renews it for as long
    as you hold it. When the nodes can't be reached for too long it is lost: another may hold it
    then, while you still work. What you change elsewhere under its protection should therefore
    carry `fence`, and refuse whoever comes with a smaller one.

    When the body of a `with` raises, the value goes on as you got it, or as you last saved it.
    """

    def __init__(
        self, hold: Hold, client: BlockingClient, clients: Clients, keeper: Keeper
    ) -> None:
        super().__init__(hold)
        self._client = client
        self._clients = clients
        self._keeper = keeper
        keeper.add(hold, client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._hold.over and not self._hold.lost:
            return  # given up within
        try:
            self._give_up(changed=error is None)
        except SnowmeltError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # what went wrong first is what is to be told

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Waits until it is over, or for so many seconds; whether it was lost."""
        end = None if timeout is None else later(steady_now(), seconds(max(0.0, checked(timeout))))
        over = threading.Event()
        self._hold.watch(over.set)
        while not (self.lost or over.is_set()):
            left = self.seconds_left
            if end is not None:
                left = min(left, seconds_until(end))
                if not left:
                    break
            over.wait(left)
        return self.lost

    def save(self, value: Buffer, *, timeout: float = TIMEOUT) -> None:
        """Sets the value and puts it on the root's disk: it is there though you die, or your node.

        Raises `BatonLost`, or `OutcomeUnknown` when the time ran out with no answer.
        """
        run(self._client, self._hold.save(value, timeout))

    def release(self) -> None:
        """Gives it up, with the value. Raises `BatonLost` when it was lost or given up before."""
        self._give_up(changed=True)

    def _give_up(self, *, changed: bool) -> None:
        if self._hold.over and not self._hold.lost:
            self._hold.check()  # the connection is another's by now
        self._keeper.drop(self._hold)
        try:
            run(self._client, self._hold.release(changed=changed))
        except BaseException:
            self._client.close()  # its end tells the node that nobody is there to hold anything
            raise
        self._clients.take_back(self._client)


class Baton:
    """A lock that heals, and carries a value. `cluster.baton(name)` gives it.

    Use it in a `with`, whose name is then a `Held`, or call `acquire`. Whoever asks first has it
    first, as the nodes see it. Threads may share one `Baton`, each for turns of its own; a thread
    that holds it and asks again waits for itself, in vain.
    """

    __reduce__ = stays("send its name and the URL, and connect there")

    def __init__(
        self, clients: Clients, keeper: Keeper, name: str, timeout: float = TURN_SECONDS
    ) -> None:
        self.name = baton_name(name)
        self._clients = clients
        self._keeper = keeper
        self._timeout = checked(timeout)
        self._entered = _Entered()

    def __repr__(self) -> str:
        return f"Baton({self.name!r})"

    def __enter__(self) -> Held:
        held = self.acquire()
        self._entered.stack.append(held)
        return held

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered.stack.pop().__exit__(kind, error, traceback)

    def acquire(self, timeout: float | None = None) -> Held:
        """Waits for a turn, as long as the baton's own `timeout` if none is given.

        Raises `NotGranted` when it does not come in time; an answer that is on its way is given
        2 s more. What was waited for is given up then.
        """
        want = Want(self._keeper.home, self.name, self._timeout if timeout is None else timeout)
        client = self._clients.lend()
        try:
            hold = run(client, want.granted())
        except SnowmeltError:
            if want.open:
                client.close()
            else:
                self._clients.take_back(client)
            raise
        except BaseException:  # interrupted; the end of its connection ends the want too
            client.close()
            raise
        return Held(hold, client, self._clients, self._keeper)

    def status(self, *, timeout: float = TIMEOUT) -> list[BatonStatus]:
        """How each node of the cluster that answers sees it; none of them sees the whole."""
        return run(self._clients, statuses(self.name, timeout))


class _Entered(threading.local):
    """What each thread holds by a `with`, the innermost last."""

    def __init__(self) -> None:
        self.stack: list[Held] = []
