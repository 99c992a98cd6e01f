"""Programs that use batons through the shipped steps: some carry a value, and some count.

Each does what the shipped faces do with these steps: waits for a turn, has the hold renewed when a
fifth of its lease is over, and gives it up, with what it set, or after an error as it got it. Some
are interrupted while they save, and some die.
"""

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from snowmelt.client.baton.steps import Hold, Home, Want
from snowmelt.client.connection.steps import Rest, Steps
from snowmelt.client.counter.tally import advance
from snowmelt.core.errors import OutcomeUnknown, SnowmeltError, Unavailable, Unreachable
from snowmelt.core.instant import SECOND, Duration, Instant, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.baton import calls
from snowmelt.sim.families.baton_ledger import Ledger
from snowmelt.sim.families.baton_numbers import Numbers
from snowmelt.sim.families.baton_users import SHORT, Client, Stage
from snowmelt.sim.families.shipped import Interrupted

WANT_SECONDS: Final = 30.0
SAVE_SECONDS: Final = (0.3, 2.0, 10.0)
COUNTS: Final = (1, 10, 400, 3_000)
AGAIN: Final = milliseconds(100)
AT_ONCE: Final = Duration(1)
UNKNOWN: Final = (OutcomeUnknown, Unavailable, Unreachable, Interrupted)
"""What a save ends with that may be on the disk all the same."""


class Caller(Client):
    """One process that wants a baton again and again, always the same."""

    def __init__(
        self, stage: Stage, name: str, nodes: Sequence[NodeId], chance: Random, ledger: Ledger
    ) -> None:
        super().__init__(stage, name, nodes, chance)
        self.served = False
        """Whether it had its turn after the faults."""
        self.hold: Hold | None = None
        self.ledger = ledger
        self._home = Home()
        self._idle = True
        self._tickets: list[int] = []
        self._rest()

    @property
    def busy(self) -> str:
        """What it is still about, in words; nothing when it has nothing to do."""
        if not self.served:
            return f"{self.name} has not had its turn"
        return self.waiting or (f"{self.name} has not let go" if self.hold is not None else "")

    @property
    def place(self) -> NodeId | None:
        """The node at which it holds the baton."""
        return None if self.hold is None or self.hold.over else self.hold.place

    def drain(self) -> None:
        """The faults are over: it wants the baton once more, soon."""
        if self._idle:
            self._rest()

    def again(self) -> None:
        """It had its turn, and wants another."""
        self.served = False
        if self._idle:
            self._rest()

    def lose(self, node: NodeId) -> None:
        """Its connection to a node has ended, and it knows."""
        self.ledger.unheard(self.name, self.now)
        super().lose(node)

    def die(self) -> None:
        """Its process is gone, without a word."""
        self._ends()
        super().die()

    def ask(self, body: Any, *arguments: Any, **options: Any) -> None:
        """Calls; what it wants and says is written down first."""
        match body:
            case calls.Acquire(ticket=ticket) if ticket not in self._tickets:
                self._tickets.append(ticket)
                self.ledger.wants(self.name, ticket, self.now)
            case calls.Save(fence=fence, value=value) if fence in self.ledger.holds:
                self.ledger.says(fence, value)
            case calls.Release(fence=fence, value=bytes(value)) if fence in self.ledger.holds:
                self.ledger.says(fence, value)
            case _:
                pass
        super().ask(body, *arguments, **options)

    def _rest(self) -> None:
        self._idle = True
        if not self.served:
            most = SHORT if self.stage.draining else self.stage.load.pause
            self.after(self.some(most), self._want)

    def _want(self) -> None:
        if not self._idle or self.served:
            return
        self._idle = False
        patience = WANT_SECONDS * (1.0 if self.stage.draining else self.chance.random())
        want = Want(self._home, self.ledger.name, patience, self.tickets)
        self.run(want.granted(), self._granted)
        if self.chance.random() < 0.03 and not self.stage.draining:
            self.after(self.some(seconds(4)), self.die)

    def _granted(self, hold: Any) -> None:
        if not isinstance(hold, Hold):
            self._ends()
            self._rest()
            return
        self.hold = hold
        self.served = self.stage.draining
        self._believes(hold)
        self._renew_later(hold)
        interrupt = None
        if self.chance.random() < 0.1 and not self.stage.draining:
            interrupt = self.some(milliseconds(self.chance.choice((5, 50, 1_000))))
        run = self.run(self.work(hold), lambda _: self._over())
        if interrupt is not None:
            self.after(interrupt, run.interrupt)

    def work(self, hold: Hold) -> Steps[None]:
        """What it does while it holds the baton; it gives it up in the end."""
        raise NotImplementedError

    def _over(self) -> None:
        self.hold = None
        self._ends()
        self._rest()

    def _ends(self) -> None:
        self.ledger.doubts(self.name)
        for ticket in self._tickets:
            self.ledger.ends_want(ticket, self.now)
        self._tickets = []

    # --- renewing ---------------------------------------------------------------------------------

    def _believes(self, hold: Hold) -> None:
        if hold.over:
            self.ledger.doubts(self.name)
        else:
            since = Instant(hold.until - hold.lease)
            self.ledger.believes(self.name, hold.fence, hold.until, since, self.now)

    def _renew_later(self, hold: Hold, least: Duration = AT_ONCE) -> None:
        wait = Duration(max(least, hold.renewal - self.now))
        self.after(wait, lambda: self._renew(hold))

    def _renew(self, hold: Hold) -> None:
        if self.hold is not hold or hold.over:
            return

        def kept(answered: Any) -> None:
            if self.hold is hold:
                self._believes(hold)
                if not hold.over:
                    self._renew_later(hold, AT_ONCE if answered is True else AGAIN)

        self.run(hold.keep(), kept)

    # --- steps ------------------------------------------------------------------------------------

    def works(self) -> Steps[None]:
        """For a while."""
        most = SHORT if self.stage.draining else self.stage.load.short
        yield Rest(self.some(most) / SECOND)

    def saves(self, hold: Hold, value: bytes) -> Steps[None]:
        """Saves, and writes down that it did."""
        timeout = 10.0 if self.stage.draining else self.chance.choice(SAVE_SECONDS)
        yield from hold.save(value, timeout)
        self.ledger.saved(hold.fence, value, self.now)

    def gives_up(self, hold: Hold, means: list[bytes], *, changed: bool) -> Steps[None]:
        """Gives it up as it means to, and writes down that it did."""
        self.ledger.means(hold.fence, means)
        self.ledger.doubts(self.name)
        yield from hold.release(changed=changed)
        self.ledger.passed(hold.fence)


class Carrier(Caller):
    """Saves, sets, sets back, or fails in the middle of it."""

    def work(self, hold: Hold) -> Steps[None]:
        """A `with` over a baton."""
        safe, doubtful = hold.value, list[bytes]()
        number = 0
        try:
            yield from self.works()
            for _ in range(self.chance.choice((0, 1, 1, 2))):
                number += 1
                said = f"{self.name}/{hold.fence}/{number}".encode()
                doubtful.append(said)
                yield from self.saves(hold, said)
                safe, doubtful = said, []
            self._sets(hold)
            yield from self.works()
        except (SnowmeltError, Interrupted) as error:
            unknown = doubtful if isinstance(error, UNKNOWN) else []
            yield from self.gives_up(hold, [safe, *unknown], changed=False)
        else:
            yield from self.gives_up(hold, [hold.value], changed=True)

    def _sets(self, hold: Hold) -> None:
        match self.chance.choice(("set", "set", "as got", "nothing", "fails")):
            case "set":
                hold.set_value(f"{self.name}/{hold.fence}/last".encode())
            case "as got":
                hold.set_value(self.ledger.holds[hold.fence].granted.value)
            case "fails":
                raise Interrupted


class Counting(Caller):
    """Takes numbers, as `Counter.next` does."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        nodes: Sequence[NodeId],
        chance: Random,
        numbers: Numbers,
    ) -> None:
        self._counter = numbers
        super().__init__(stage, name, nodes, chance, numbers.ledger)

    def work(self, hold: Hold) -> Steps[None]:
        """One call of `next`."""
        count = self.chance.choice(COUNTS)
        self._counter.takes(hold.fence, hold.made)
        safe, doubtful = hold.value, list[bytes]()
        try:
            step = advance(hold.value, hold.made, count)
            if step.reserves:
                doubtful = [step.value]
                self._counter.reserves(step, self.now)
                yield from self.saves(hold, step.value)
                self._counter.reserved(step, self.now)
                safe, doubtful = step.value, []
            hold.set_value(step.value)
        except (SnowmeltError, Interrupted) as error:
            unknown = doubtful if isinstance(error, UNKNOWN) else []
            yield from self.gives_up(hold, [safe, *unknown], changed=False)
        else:
            yield from self.gives_up(hold, [step.value], changed=True)
            self._counter.told(self.name, hold.fence, step, self.now)
