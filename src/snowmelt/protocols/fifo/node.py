"""The fifo machine: who hears what. All else is in its parts.

Every event goes the same way: it is given to the part it is for; what the parts say to each other
within this node is worked off; then each queue that was touched makes a step of its journal, and
the disk, if it is free, begins to write.
"""

from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import (
    Announce,
    Announced,
    Effect,
    Event,
    Expired,
    Loaded,
    Persisted,
    PersistFailed,
    Received,
    Requested,
    SetTimer,
    Started,
)
from snowmelt.protocols.calling import Gone
from snowmelt.protocols.fifo import messages
from snowmelt.protocols.fifo.copying import Copying
from snowmelt.protocols.fifo.desk import NODE, REST, Desk
from snowmelt.protocols.fifo.directory import Directory
from snowmelt.protocols.fifo.door import Door
from snowmelt.protocols.fifo.early import Confirmed, Enough, Offer, TooEarly, Unstored
from snowmelt.protocols.fifo.intake import Intake
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.limits import LIMITS, Limits
from snowmelt.protocols.fifo.master import Master
from snowmelt.protocols.fifo.messages import Home
from snowmelt.protocols.fifo.mirrors import Mirrors
from snowmelt.protocols.fifo.registry import Registry
from snowmelt.protocols.fifo.reign import Reign
from snowmelt.protocols.fifo.scribe import Scribe
from snowmelt.protocols.fifo.streams import Presence
from snowmelt.protocols.membership import (
    CutOff,
    HandedOver,
    Leads,
    LeadsNoMore,
    Leaving,
    RecordsKept,
    Unsure,
    View,
)

Effects = list[Effect[Any]]
Hears = Callable[[NodeId, Any], None]


class FifoTimer(Enum):
    TICK = "fifo.tick"


class FifoNode:
    """One node's part in all fifos.

    With `alone` there is no other process that could hold a lease given before this one began.
    Homes are `on_disk` of the coordinator, or else in etcd.
    """

    def __init__(
        self,
        me: NodeId,
        chance: Random,
        *,
        alone: bool = False,
        limits: Limits = LIMITS,
        on_disk: bool = True,
    ) -> None:
        desk = self._desk = Desk(me, chance, limits)
        self._directory = Directory(desk)
        self._registry = Registry(desk, on_disk=on_disk)
        self._mirrors = Mirrors(desk)
        self._keeper = Keeper(desk, self._directory.master_of)
        self._copying = Copying(desk, self._keeper)
        self._intake = Intake(desk, self._keeper, self._directory)
        self._scribe = Scribe(desk, self._mirrors)
        self._reign = Reign(
            desk, self._directory, self._mirrors, self._keeper, self._scribe, alone=alone
        )
        self._door = Door(desk, self._directory, self._keeper, self._intake, self._master_here)
        self._timer: Instant | None = None
        self._hears = self._table()

    def handle(self, event: Event[Any], now: Instant) -> Effects:
        self._desk.now = now
        if (
            type(event) is Requested
        ):  # these three by far the most; a `match` takes ten times as long
            self._door.requested(event.operation, event.message)
        elif type(event) is Persisted:
            self._desk.written(event)
        elif type(event) is Received:
            self._hears[type(event.message)](event.source, event.message)
        else:
            self._told(event, now)
        self._settle()
        return self._desk.taken()

    def _told(self, event: Event[Any], now: Instant) -> None:
        match event:
            case PersistFailed():
                self._desk.written(event)
            case Loaded():
                self._desk.read(event)
            case Expired():
                self._timer = None
                self._tick()
            case Announced(View() as view):
                self._desk.set_presence(Presence(view, self._desk.presence, now))
                self._registry.viewed()
                self._reign.viewed()
                self._intake.viewed()
            case Announced(CutOff()):
                self._desk.set_presence(None)
                self._reign.cut_off()
            case Announced((Leads() | LeadsNoMore() | RecordsKept()) as fact):
                self._registry.told(fact)
            case Announced(Leaving()):  # it hands over nothing
                self._desk.effect(Announce(HandedOver()))
            case Announced(Unsure(until)):
                self._registry.unsure = until
            case Announced(Gone(client)):
                for master in self._scribe.masters.values():
                    if master.waiting.gets:
                        master.waiting.gone(client)
            case Started():
                self._desk.set_wall(event.wall, now)
                self._mirrors.begin(event)
                self._registry.begin(event)
            case _:
                pass

    def check(self) -> None:
        for master in self._scribe.masters.values():
            master.check()

    def _table(self) -> dict[type, Hears]:
        registry, keeper, copying = self._registry, self._keeper, self._copying
        reign, intake = self._reign, self._intake
        return {
            messages.Home: self._home,
            messages.Nowhere: lambda _, message: self._directory.nowhere(message),
            messages.Rolled: lambda _, message: self._directory.rolled(message),
            messages.Where: registry.where,
            messages.Roll: registry.roll,
            messages.Claim: lambda _, message: registry.claim(message),
            messages.Activate: registry.said,
            messages.Among: registry.said,
            messages.Unreached: lambda _, message: registry.unreached(message),
            messages.Seek: self._mirrors.seek,
            messages.Sought: lambda _, message: registry.sought(message),
            messages.Fence: reign.fence,
            messages.Fenced: lambda _, message: reign.fenced(message),
            messages.Mirror: reign.mirror,
            messages.Follow: reign.follow,
            messages.Snapshot: reign.snapshot,
            messages.Pieced: lambda _, message: reign.pieced(message),
            messages.ReadJournal: self._mirrors.read,
            messages.JournalRead: lambda _, message: reign.read(message),
            messages.Mirrored: lambda _, message: reign.mirrored(message),
            messages.Vouch: self._mirrors.confirm,
            messages.Vouched: self._for_master(
                lambda one, told: one.journal.confirming.confirmed(told)
            ),
            messages.Behind: lambda _, message: reign.behind(message),
            messages.Superseded: lambda _, message: reign.superseded(message),
            messages.Copy: keeper.copy,
            messages.Copied: lambda _, message: intake.copied(message),
            messages.Admitted: lambda _, message: intake.admitted(message),
            messages.Drop: lambda _, message: keeper.drop(message),
            messages.Keep: keeper.keep,
            messages.Pull: keeper.pull,
            messages.Pulled: copying.pulled,
            messages.Replicate: copying.replicate,
            messages.Admit: self._for_master(lambda one, told: one.admission.admit(told)),
            messages.Kept: self._for_master(lambda one, told: one.repair.kept(told)),
            messages.Replicated: self._for_master(lambda one, told: one.repair.replicated(told)),
            messages.Broken: self._for_master(lambda one, told: one.repair.broken(told)),
            Unstored: self._for_master(
                lambda one, told: one.admission.unstored(told.stream, told.first, told.reason)
            ),
            Offer: self._for_master(lambda one, told: one.admission.offer(told)),
            Enough: self._for_master(lambda one, told: one.repair.doubting.enough(told)),
            Confirmed: self._for_master(lambda one, told: one.repair.confirmed(told)),
            TooEarly: lambda _, message: intake.too_early(message),
        }

    def _for_master(self, act: Callable[[Master, Any], None]) -> Hears:
        """For the master of a queue; a message to a master that is not here is lost."""

        def heard(_: NodeId, message: Any) -> None:
            master = self._master_here(message.queue)
            if master is not None:
                act(master, message)

        return heard

    def _master_here(self, queue: str) -> Master | None:
        self._scribe.touch(queue)
        return self._scribe.masters.get(queue)

    def _home(self, source: NodeId, home: Home) -> None:
        known = self._directory.home(home.queue)
        if known is not None and self._desk.alarm(source, home.queue, home.term, known.term):
            return
        if self._mirrors.alarm(source, home.queue, home.term):
            return
        self._reign.heard(home)  # first: whoever waits for a master that is here now finds it
        self._directory.heard(home)
        if home.active:
            self._intake.homed(home)

    def _tick(self) -> None:
        for name in self._desk.alarms.due(self._desk.now):
            if name == REST:
                self._desk.finish()
            elif name == NODE:
                self._directory.tick()
                self._registry.tick()
                self._intake.tick()
                self._reign.tick()
            else:
                self._reign.tick_queue(name)

    def _settle(self) -> None:
        """Works off what the parts say to each other, and begins to write what is to be written."""
        desk = self._desk
        while True:
            while desk.inside:
                message = desk.inside.popleft()
                self._hears[type(message)](desk.me, message)
            self._intake.offer()
            if not desk.inside and not self._scribe.step():
                break
        self._scribe.write()
        wake_at = desk.alarms.before(self._timer)
        if wake_at is not None:
            self._timer = wake_at
            desk.effect(SetTimer(FifoTimer.TICK, wake_at))
