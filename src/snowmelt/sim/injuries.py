"""How each fault is done to a world, and undone."""

from typing import assert_never

from snowmelt.core.instant import Duration
from snowmelt.sim.disk import Ending
from snowmelt.sim.faults import (
    ClockJump,
    ClockSkew,
    Crash,
    Delay,
    Duplication,
    Fault,
    FlippedBit,
    FullDisk,
    Loss,
    LostWrites,
    Partition,
    Pause,
    Reordering,
    SlowNode,
    TornRecord,
)
from snowmelt.sim.world import World

_ENDINGS = {Crash: Ending.CRASH, LostWrites: Ending.POWER, TornRecord: Ending.TORN}


def schedule(world: World, faults: tuple[Fault, ...]) -> None:
    """Puts every injury's beginning and end into the world's future."""
    for fault in faults:
        world.at(fault.at, begin, world, fault)
        if not isinstance(fault, ClockSkew | ClockJump | FlippedBit):
            world.at(fault.until, end, world, fault)


def begin(world: World, fault: Fault) -> None:
    """It happens."""
    match fault:
        case Loss() | Duplication() | Reordering() | Delay() | Partition():
            world.network.begin(fault)
        case Crash(mid_write=True) | LostWrites(mid_write=True) | TornRecord(mid_write=True):
            world.slots[fault.node].doom = _ENDINGS[type(fault)]
        case Crash(node=node) | LostWrites(node=node) | TornRecord(node=node):
            world.stop(node, _ENDINGS[type(fault)])
        case Pause(until=until, node=node):
            slot = world.slots[node]
            slot.paused_until = max(slot.paused_until, until)
        case SlowNode(node=node, extra=extra):
            world.slots[node].slowness = extra
        case ClockSkew(node=node, ppm=ppm):
            world.turn_clock(node, ppm=ppm)
        case ClockJump(node=node, by=by):
            world.turn_clock(node, by=by)
        case FlippedBit(node=node):
            world.flip(node)
        case FullDisk(node=node):
            world.slots[node].disk.full = True
        case _:
            assert_never(fault)


def end(world: World, fault: Fault) -> None:
    """It is over."""
    match fault:
        case Loss() | Duplication() | Reordering() | Delay() | Partition():
            world.network.end(fault)
        case Crash(node=node) | LostWrites(node=node) | TornRecord(node=node):
            world.slots[node].doom = None
            if world.slots[node].wanted:
                world.start(node)
        case SlowNode(node=node):
            world.slots[node].slowness = Duration(0)
        case FullDisk(node=node):
            world.slots[node].disk.full = False
        case _:
            pass  # a pause ends by itself; a clock stays turned, a bit flipped


def heal(world: World) -> None:
    """Everything is over at once: the network whole, disks with room, every process running."""
    world.network.heal()
    for node, slot in world.slots.items():
        slot.paused_until = min(slot.paused_until, world.now)
        slot.slowness = Duration(0)
        slot.doom = None
        slot.disk.full = False
        if slot.wanted:
            world.start(node)
