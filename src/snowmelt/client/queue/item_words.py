"""What a person is told of one item: where it is, and what happened to it."""

from snowmelt.client.leases.steps import Seen
from snowmelt.client.queue.one_item import ItemOverview, TraceEntry
from snowmelt.core.shown import age, printable
from snowmelt.protocols.queue.api.statuses import ItemStanding, TraceKind


def standing(told: ItemOverview) -> str:
    """Where it is, and who has it; without a name where who asks may not know it."""
    if told.standing is ItemStanding.WITH_A_GROUP:
        return f"with the group {printable(told.group)}"
    return whereabouts(told.standing, told)


def whereabouts(state: ItemStanding, told: ItemOverview | Seen) -> str:
    """The same, of one whose state is known."""
    match state:
        case ItemStanding.LEASED:
            who = f" to {_program(told.program, told.pid, told.host)}" if told.program else ""
            return f"leased{who}, for {age(told.held)}; its lease lasts {age(told.left)} more"
        case ItemStanding.DELAYED:
            return f"delayed for {age(told.left)} more"
        case _:
            return state.value


def when(one: TraceEntry) -> str:
    """At which moment, or between which: a step of the log has no time of its own."""
    after, before = one.after, one.before
    if before is None:
        return "" if after is None else f"after {after:%Y-%m-%d %H:%M:%S}"
    if after is None:
        return f"before {before:%Y-%m-%d %H:%M:%S}"
    if (before - after).total_seconds() < 1:
        return f"{before:%Y-%m-%d %H:%M:%S}"
    same = after.date() == before.date()
    return f"{after:%Y-%m-%d %H:%M:%S} to {before:{'%H:%M:%S' if same else '%m-%d %H:%M:%S'}}"


def happened(one: TraceEntry) -> str:
    """What it was, and who did it."""
    who = _program(one.program, one.pid, one.host) if one.program else printable(one.name)
    by = f" by {who}" if who else ""
    match one.kind:
        case TraceKind.PUT:
            words = f"{by}, as number {one.number}" if who else ""
        case TraceKind.LEASED:
            words = f"{' to ' + who if who else ''} for {age(one.length)}, lease {one.number}"
        case TraceKind.EXTENDED:
            words = f"{by} to {age(one.length)}, lease {one.number}"
        case TraceKind.FAILED:
            words = f"{by}, for the time {one.failures}: {printable(one.reason)}"
        case TraceKind.DIED:
            words = f" after {one.failures} failures: {printable(one.reason)}"
        case _:
            words = by
    due = "" if one.due is None else f", for {one.due:%Y-%m-%d %H:%M:%S}"
    return f"{one.kind.value}{words}{due}"


def _program(name: str, pid: int, host: str) -> str:
    return printable(name) + (f", process {pid} at {printable(host)}" if host else "")
