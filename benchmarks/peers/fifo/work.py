"""Puts items, and then gets and acknowledges them all: the work of fifos and of priorities.

The client is one process on one core, and every server has another core, the same for all.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from benchmarks.peers import cores
from benchmarks.peers.comparison import WAIT_SECONDS, Figures, Limits, Peer, Work
from benchmarks.peers.crew import Crew
from benchmarks.peers.fifo.by_tasks import by_tasks
from benchmarks.peers.fifo.by_threads import by_threads
from benchmarks.peers.fifo.cell import Cell
from benchmarks.peers.fifo.clients import QueuePeer
from benchmarks.peers.fifo.disk import Disk

COLUMNS: Final[Mapping[str, str]] = {
    "put/s": "put_per_second",
    "get+ack/s": "get_per_second",
    "both/s": "both_per_second",
    "put p50": "put_p50_ms",
    "p99 ms": "put_p99_ms",
    "get p50": "get_p50_ms",
    "p99 get": "get_p99_ms",
    "client us": "client_us",
    "servers us": "servers_us",
}
CHARTED: Final = {"both_per_second": "items a second, put and then got and acknowledged"}
NOTES: Final = (
    "Items a second; milliseconds a call; microseconds of the processor an item. Both: put, then "
    "got and acknowledged. x: how many times its both/s Snowmelt's is.\n"
    "disk: 4 kB written at the end of a file and flushed (fdatasync). "
    "Above the line: flushes before it answers. Below: flushes now and then."
)
FILLING_SECONDS: Final = 120.0


def put_and_get(cell: Cell, peer: Peer, queue: str, limits: Limits) -> Figures:
    """One peer's work on one cell."""
    if isinstance(peer, Disk):
        return peer.flushes()
    assert isinstance(peer, QueuePeer)
    many = cell.lanes if cell.tasks else cell.batch
    connect: Any = peer.tasks if cell.tasks else peer.client
    address = getattr(peer.service, "address", None)
    with Crew(peer, cores.CLIENT) as crew:
        act = by_tasks if cell.tasks else by_threads
        client = crew.start(act, partial(connect, address, queue, many), cell, limits)
        filling = FILLING_SECONDS if cell.backlog else 0.0
        figures, items = crew.heard(client, limits.seconds + 4 * WAIT_SECONDS + filling)
        return {**figures, **crew.spent(items)}


def fits(cell: Cell, peer: Peer) -> bool:
    """Whether the peer is used in that way."""
    if isinstance(peer, Disk):
        return True
    if not isinstance(peer, QueuePeer) or cell.way not in peer.ways:
        return False
    if cell.backlog and "many" not in peer.ways:
        return False
    return (peer.tasks if cell.tasks else peer.client) is not None


def works(cells: list[Cell]) -> tuple[Work, ...]:
    """A kind of work for each cell."""
    return tuple(
        Work(
            cell.name,
            str(cell),
            partial(put_and_get, cell),
            partial(fits, cell),
            asked=cell.backlog > 0,
        )
        for cell in cells
    )
