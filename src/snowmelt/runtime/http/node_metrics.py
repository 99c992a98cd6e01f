"""Metrics of a node's process: its view, its connections, its disk, and what it takes."""

import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final

from snowmelt.protocols.membership import View
from snowmelt.runtime.http.exposition import COUNTER, GAUGE, MetricFamily, labelled
from snowmelt.runtime.memory import resident
from snowmelt.runtime.statistics import CostSummary, NodeStatistics

REASONS_MAX: Final = 50
"""So many reasons have a label of their own."""
STORE_COUNTERS: Final = {
    "commits": "Writes to the disk, each of which is whole or not at all.",
    "flushes": "Flushes of the disk.",
    "groups": "Groups of writes that shared a flush.",
    "refused": "Writes refused for want of room.",
    "bytes_written": "Bytes written.",
    "damaged_found": "Records whose checksum did not fit: the disk gave back something else.",
}
STORE_GAUGES: Final = {
    "bytes_used": "Bytes of the disk that records take.",
    "bytes_max": "Bytes of the disk that records may take.",
    "bytes_free": "Bytes that the disk has left.",
}


def node_families(told: NodeStatistics, view: View | None, current: bool) -> Iterator[MetricFamily]:
    info = MetricFamily(
        "snowmelt_node_info", GAUGE, "The node, its version and its cluster; always 1."
    )
    cluster = "" if view is None else view.identity
    info.add(1, labelled(node=told.node, version=told.version, cluster=cluster))
    yield info
    yield _one("node_current", GAUGE, "Whether it is in the newest view, and was heard.", current)
    yield _one("view_epoch", GAUGE, "The number of its view.", 0 if view is None else view.epoch)
    members = 0 if view is None else len(view.members)
    yield _one("view_members", GAUGE, "Members of its view.", members)
    yield _one("events_total", COUNTER, "Events that its machines handled.", told.events)
    yield _one("flush_waiting_steps", GAUGE, "Steps that wait for the disk.", told.flush_waits)
    longest = told.longest_turn
    yield _one("longest_turn_seconds", GAUGE, "The longest time in which it heard nobody.", longest)
    yield from _connections(told)
    yield _one("etcd_requests_total", COUNTER, "Requests to etcd.", told.etcd_asked)
    for name, said in STORE_COUNTERS.items():
        yield _one(f"store_{name}_total", COUNTER, said, told.store.get(name, 0))
    for name, said in STORE_GAUGES.items():
        yield _one(f"store_{name}", GAUGE, said, told.store.get(name, 0))
    yield from _process(told.seconds)


def _connections(told: NodeStatistics) -> Iterator[MetricFamily]:
    opened = "Connections that there ever were."
    yield _one("connections_opened_total", COUNTER, opened, told.connections_total)
    here = MetricFamily(
        "snowmelt_connections", GAUGE, "Connections that are open, by who is there."
    )
    roles = [one.role for one in told.connections]
    for role in sorted({"node", "client", *roles}):
        here.add(roles.count(role), labelled(role=role))
    yield here
    ended = "Connections that ended, by reason."
    yield _by_reason("connections_closed_total", ended, told.closed)
    dropped = "Messages and dials that came to nothing, by reason."
    yield _by_reason("messages_dropped_total", dropped, told.dropped)
    refused = "Calls that their user had no right to, by call."
    yield _by_reason("calls_refused_total", refused, told.refused, "call")
    yield from _costs(told.costs)


def _costs(costs: dict[str, CostSummary]) -> Iterator[MetricFamily]:
    used = MetricFamily("snowmelt_cost", GAUGE, "What others cost this node now, by kind.")
    total = MetricFamily("snowmelt_cost_max", GAUGE, "What all may cost it together, by kind.")
    said = "How often somebody had no room, by kind."
    refused = MetricFamily("snowmelt_cost_refused_total", COUNTER, said)
    for kind, cost in costs.items():
        used.add(cost.used, labelled(kind=kind))
        total.add(cost.total, labelled(kind=kind))
        refused.add(cost.refused, labelled(kind=kind))
    yield from (used, total, refused)


def _one(name: str, kind: str, said: str, value: float) -> MetricFamily:
    family = MetricFamily(f"snowmelt_{name}", kind, said)
    family.add(int(value) if isinstance(value, bool) else value)
    return family


def _by_reason(name: str, said: str, counts: dict[str, int], label: str = "reason") -> MetricFamily:
    """The first by name have a label each."""
    family = MetricFamily(f"snowmelt_{name}", COUNTER, said)
    some = sorted(counts.items())
    for reason, count in some[:REASONS_MAX]:
        family.add(count, labelled(**{label: reason}))
    if some[REASONS_MAX:]:
        family.add(sum([count for _, count in some[REASONS_MAX:]]), labelled(**{label: "other"}))
    return family


def _process(seconds: float) -> Iterator[MetricFamily]:
    """What every Prometheus client tells of its process, under the names that they share."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = MetricFamily("process_cpu_seconds_total", COUNTER, "Processor time, of user and system.")
    cpu.add(used.ru_utime + used.ru_stime)
    yield cpu
    start = MetricFamily(
        "process_start_time_seconds", GAUGE, "When it began, in seconds since 1970."
    )
    start.add(round(time() - seconds, 3))
    yield start
    memory = MetricFamily("process_resident_memory_bytes", GAUGE, "Memory that it has.")
    there = resident() or (used.ru_maxrss if sys.platform == "darwin" else 0)
    if there:
        memory.add(there)
    yield memory
    files = MetricFamily("process_open_fds", GAUGE, "Files and sockets that it has open.")
    with suppress(OSError):
        files.add(len(list(Path("/proc/self/fd").iterdir())))
    yield files
