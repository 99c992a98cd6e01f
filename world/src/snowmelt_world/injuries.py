"""How each fault is done to a world, and undone."""

from typing import assert_never

from snowmelt.core.instant import START, Duration, Instant, later
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced
from snowmelt.protocols.etcd import ETCD
from snowmelt.protocols.membership import Severed
from snowmelt_world.disk import Disk, Ending
from snowmelt_world.etcd import leader_of
from snowmelt_world.faults import (
    ClientPause,
    ClockJump,
    ClockSkew,
    Crash,
    CutLinks,
    FailingDisk,
    Fault,
    FillingDisk,
    FlippedBit,
    FullDisk,
    HeldBack,
    LeaderCrash,
    LeaderHeld,
    LeaderParted,
    LeaderPause,
    LongPause,
    LostDisk,
    LostFounder,
    LostWrites,
    OfLeader,
    OlderDisk,
    Partition,
    Pause,
    PowerCut,
    QuickRestarts,
    RestartInCut,
    RollingRestart,
    Rumour,
    SlowDisk,
    SlowNode,
    Stalls,
    Suspend,
    TornRecord,
    WallClock,
)
from snowmelt_world.network import NetworkFault
from snowmelt_world.world import World

_ENDINGS = {Crash: Ending.CRASH, LostWrites: Ending.POWER, TornRecord: Ending.TORN}
_MOMENTS = ClockSkew | ClockJump | FlippedBit | WallClock
"""Those that have no end."""
_RESTARTS = QuickRestarts | RestartInCut | RollingRestart


def schedule(world: World, faults: tuple[Fault | OfLeader, ...]) -> None:
    for fault in faults:
        if isinstance(fault, WallClock) and fault.at == START:
            begin(world, fault)  # before any process begins
            continue
        if isinstance(fault, OfLeader):
            world.at(fault.at, _hurt_leader, world, fault)
            continue
        if isinstance(fault, Rumour):
            world.at(fault.at, _spread, world, fault)
            continue
        if isinstance(fault, OlderDisk):
            world.at(fault.taken, _keep_copy, world, fault.node)
        world.at(fault.at, begin, world, fault)
        if isinstance(fault, _RESTARTS):
            _schedule_restarts(world, fault)
        if isinstance(fault, PowerCut):
            world.at(fault.fails, _cut_power, world, fault)
        if isinstance(fault, Stalls):
            _schedule_stalls(world, fault)
        if not isinstance(fault, _MOMENTS):
            world.at(fault.until, end, world, fault)


def _schedule_restarts(world: World, fault: _RESTARTS) -> None:
    for node, at in _restarts(fault):
        if at < fault.until:
            world.at(at, world.stop, node)
            world.at(min(later(at, fault.down), fault.until), world.wake, node)


def _schedule_stalls(world: World, fault: Stalls) -> None:
    for at in fault.times:
        until = min(later(at, fault.length), fault.until)
        for node in fault.nodes:
            world.at(at, _pause, world, node, until)


def _restarts(fault: _RESTARTS) -> list[tuple[NodeId, Instant]]:
    match fault:
        case QuickRestarts(node=node, times=times) | RestartInCut(node=node, times=times):
            return [(node, at) for at in times]
        case RollingRestart(at=at, nodes=nodes, down=down, up=up):
            turn = Duration(down + up)
            return [(node, later(at, Duration(n * turn))) for n, node in enumerate(nodes)]


def begin(world: World, fault: Fault) -> None:
    match fault:
        case Crash(mid_write=True) | LostWrites(mid_write=True) | TornRecord(mid_write=True):
            world.slots[fault.node].doom = _ENDINGS[type(fault)]
        case Crash(node=node) | LostWrites(node=node) | TornRecord(node=node):
            world.stop(node, _ENDINGS[type(fault)])
        case (
            Pause(until=until, node=node)
            | LongPause(until=until, node=node)
            | ClientPause(until=until, client=node)
        ):
            _pause(world, node, until)
        case Suspend(until=until, node=node):
            _pause(world, node, until)
            world.turn_clock(node, until=until)
        case SlowNode(node=node, extra=extra):
            world.slots[node].slowness = extra
        case ClockSkew(node=node, ppm=ppm):
            world.turn_clock(node, ppm=ppm)
        case ClockJump(node=node, by=by):
            world.turn_clock(node, by=by)
        case WallClock(node=node, by=by):
            world.slots[node].wall_by = by
        case RollingRestart() | Stalls() | Rumour():
            pass  # what happens by it is in the world's future
        case PowerCut(nodes=nodes, extra=extra):
            _slow_down(world, nodes, extra)
        case FlippedBit() | FullDisk() | FillingDisk() | FailingDisk() | SlowDisk():
            _hurt(world, fault)
        case OlderDisk(node=node, taken=taken):
            world.replace_disk(node, taken)
        case LostDisk(node=node) | LostFounder(node=node):
            world.replace_disk(node)
        case _:
            world.network.begin(fault)


def _hurt_leader(world: World, fault: OfLeader) -> None:
    leader = leader_of(world)
    match fault:
        case _ if leader is None:
            pass  # nobody leads
        case LeaderCrash(until=until):
            world.stop(leader)
            world.at(until, world.wake, leader)
        case LeaderPause(until=until):
            _pause(world, leader, until)
        case LeaderHeld(until=until):
            held = HeldBack(world.now, until, leader, ETCD)
            world.network.begin(held)
            world.at(until, world.network.end, held)
        case LeaderParted(until=until, early=early):
            alone = Partition(world.now, until, "the leader", (leader,))
            world.network.begin(alone)
            world.at(until, world.network.end, alone)
            world.turn_clock(ETCD, by=early)


def _pause(world: World, name: NodeId, until: Instant) -> None:
    slot = world.slots.get(name)
    if slot is not None:  # a client may not be part of this life
        slot.paused_until = max(slot.paused_until, until)


def _hurt(
    world: World, fault: FlippedBit | FullDisk | FillingDisk | FailingDisk | SlowDisk
) -> None:
    slot = world.slots[fault.node]
    match fault:
        case FlippedBit(node=node):
            world.flip(node)
        case FullDisk():
            slot.disk.full = True
        case FillingDisk(room=room):
            slot.disk.room = room
        case FailingDisk():
            slot.disk.failing = True
        case SlowDisk(extra=extra):
            slot.disk_slowness = extra
        case _:
            assert_never(fault)


def _spread(world: World, rumour: Rumour) -> None:
    node = leader_of(world) if rumour.node is None else rumour.node
    for hearer in rumour.hearers:
        if node not in (None, hearer) and world.slots[hearer].node is not None:
            world.give(hearer, Announced(Severed(node)))


def _slow_down(world: World, nodes: tuple[NodeId, ...], extra: Duration) -> None:
    for node in nodes:
        world.slots[node].disk_slowness = extra


def _cut_power(world: World, fault: PowerCut) -> None:
    _slow_down(world, fault.nodes, Duration(0))
    for node in fault.nodes:
        world.stop(node, Ending.POWER)


def _keep_copy(world: World, node: NodeId) -> None:
    slot = world.slots[node]
    slot.copies[world.now] = slot.disk.copy()


def end(world: World, fault: Fault) -> None:
    match fault:
        case Crash(node=node) | LostWrites(node=node) | TornRecord(node=node):
            world.slots[node].doom = None
            world.wake(node)
        case OlderDisk(node=node) | LostDisk(node=node) | LostFounder(node=node):
            world.wake(node)
        case PowerCut(nodes=nodes):
            for node in nodes:
                world.wake(node)
        case SlowNode(node=node):
            world.slots[node].slowness = Duration(0)
        case SlowDisk(node=node):
            world.slots[node].disk_slowness = Duration(0)
        case FullDisk(node=node) | FillingDisk(node=node):
            _make_room(world.slots[node].disk)
        case FailingDisk(node=node):
            world.slots[node].disk.failing = False
        case CutLinks(stays=True):
            pass
        case _ if isinstance(fault, NetworkFault):
            world.network.end(fault)
        case _:
            pass  # a pause ends by itself; a clock stays turned, a bit flipped


def _make_room(disk: Disk) -> None:
    disk.full, disk.room = False, None


def heal(world: World) -> None:
    """Everything is over at once: the network whole, disks sound, every process running.

    But a disk that failed takes nothing until its process has ended: only a restart ends that.
    """
    world.network.heal()
    for slot in world.slots.values():
        slot.paused_until = min(slot.paused_until, world.now)
        slot.slowness = slot.disk_slowness = Duration(0)
        slot.doom = None
        slot.disk.failing = False
        _make_room(slot.disk)
    for node in world.slots:
        world.wake(node)
