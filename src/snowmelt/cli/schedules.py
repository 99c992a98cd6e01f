"""`snowmelt schedules` and `snowmelt unschedule`; `snowmelt put --every` makes them."""

import json
import sys
from datetime import datetime
from typing import Annotated, Any, Final
from zoneinfo import ZoneInfo

import msgspec
import typer
from rich.table import Table

from snowmelt.cli.item import OVER
from snowmelt.cli.options import HERE, AsJson, PlaceOptions, QueueName
from snowmelt.cli.tables import listing, wide_console
from snowmelt.client.cluster import Cluster
from snowmelt.client.embedded.face import EmbeddedCluster
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.priority.face import PriorityQueue
from snowmelt.client.queue.schedules import MISSED, ScheduleOverview
from snowmelt.core.errors import BadOption

EVERY: Final = typer.Option(help='Put it again and again: "0 7 * * 1-5", "@daily", "30s", "2h".')
ZONE: Final = typer.Option(help="With --every: the time zone, as Europe/Berlin; else UTC.")
SCHEDULE: Final = typer.Option(help="With --every: the schedule's name; else the queue's.")
HOW: Final = typer.Option(help="With --every: once, or skip what was missed.")
SomeQueue = Annotated[str | None, typer.Argument(help="One queue; else all that have any.")]
HEADS: Final = ("queue", "schedule", "every", "zone", "next", "last", "fired", "missed", "bytes")


class ScheduleFlags(msgspec.Struct, frozen=True):
    """The options of a command that puts something again and again."""

    every: Annotated[str | None, EVERY] = None
    zone: Annotated[str | None, ZONE] = None
    schedule: Annotated[str | None, SCHEDULE] = None
    missed: Annotated[str | None, HOW] = None

    def check(self, *, lines: bool) -> None:
        """Refuses what goes with others only; raises `BadOption`."""
        if self.every is not None and lines:
            raise BadOption("--every", self.every, "with one body, and not with --lines")
        for option in ("zone", "schedule", "missed"):
            value = getattr(self, option)
            if self.every is None and value is not None:
                raise BadOption(f"--{option}", value, "only with --every")
        if self.missed not in (None, *MISSED):
            raise BadOption("--missed", self.missed, " or ".join(MISSED))

    def put(self, queue: Fifo | PriorityQueue, bodies: list[bytes], how: dict[str, Any]) -> str:
        """Makes the schedule, and tells what was made."""
        assert self.every is not None
        if len(bodies) != 1:
            raise BadOption("--every", self.every, f"with one body, not {len(bodies)}")
        if self.missed is not None:
            how = {**how, "missed": self.missed}
        name, zone = self.schedule or queue.name, self.zone or "UTC"
        made = queue.schedule(name, bodies[0], every=self.every, zone=zone, **how)
        return f"schedule {made.name} of {queue.name}: next at {shown(made.next, made.zone)}"


ONCE: Final = ScheduleFlags()


def schedules(queue: SomeQueue = None, as_json: AsJson = False, at: PlaceOptions = HERE) -> None:
    """Show when each schedule fires next, and when it did last; of one queue, or of all."""
    with at.open() as cluster:
        names = [queue] if queue else _that_have_some(cluster, at.timeout)
        found = {
            name: cluster.queue(name, timeout=at.timeout).schedules(timeout=at.timeout)
            for name in names
        }
    if as_json:
        told = [
            {"queue": name, "schedules": msgspec.to_builtins(one)} for name, one in found.items()
        ]
        print(json.dumps(told[0] if queue else {"queues": told}))
    elif any(found.values()):
        wide_console().print(_table(found))
    else:
        print(f"{queue} has no schedules" if queue else "no queue has schedules")


def _that_have_some(cluster: Cluster | EmbeddedCluster, timeout: float) -> list[str]:
    """Queues with schedules; says which are not known to have any."""
    names = list[str]()
    for one in cluster.overview(timeout=timeout):
        if one.status is None:
            print(f"{one.name} is not asked: {one.waits}", file=sys.stderr)
        elif one.status.schedules:
            names.append(one.name)
    return names


def _table(found: dict[str, list[ScheduleOverview]]) -> Table:
    made = listing(HEADS, words=("queue", "schedule", "every", "zone", "missed"))
    for name, some in found.items():
        for one in some:
            times = shown(one.next, one.zone), shown(one.last, one.zone)
            counts = f"{one.fired:,}", one.missed, f"{one.bytes:,}"
            made.add_row(name, one.name, one.every, one.zone or "-", *times, *counts)
    return made


def unschedule(
    queue: QueueName,
    schedule: Annotated[str, typer.Argument(help="The schedule's name.")],
    at: PlaceOptions = HERE,
) -> None:
    """Remove a schedule of a queue. What it has put stays.

    Ends with 4 where there is none of this name.
    """
    with at.open() as cluster:
        there = cluster.queue(queue, timeout=at.timeout).unschedule(schedule, timeout=at.timeout)
    print(f"schedule {schedule} is removed" if there else f"{queue} has no schedule {schedule}")
    if not there:
        raise typer.Exit(OVER)


def shown(moment: datetime | None, zone: str) -> str:
    """A moment by the clock of its schedule's zone, where this machine knows it; else of UTC.

    >>> from datetime import UTC
    >>> morning = datetime(2026, 11, 30, 6, tzinfo=UTC)
    >>> shown(morning, "Europe/Berlin"), shown(morning, ""), shown(None, "UTC")
    ('2026-11-30 07:00:00 CET', '2026-11-30 06:00:00 UTC', '-')
    """
    if moment is None:
        return "-"
    try:
        local = moment.astimezone(ZoneInfo(zone or "UTC"))
    except (KeyError, ValueError, OSError):
        local = moment
    return f"{local:%Y-%m-%d %H:%M:%S %Z}"
