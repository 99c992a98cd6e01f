"""The peers take turns within each round, so that a noisy minute of the machine hits all alike."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.fifo.peer import Missing
from benchmarks.pool_peers_parts.cell import Cell
from benchmarks.pool_peers_parts.peer import Peer
from benchmarks.pool_peers_parts.peers import make
from benchmarks.pool_peers_parts.row import Row
from benchmarks.pool_peers_parts.turn import Bounds, TurnFailed, turn

from snowmelt.core.errors import SnowmeltError


@contextmanager
def running(names: list[str], folder: Path) -> Iterator[tuple[list[Peer], dict[str, str]]]:
    """Those peers that could be started, and why the others could not."""
    peers: list[Peer] = []
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        for name in names:
            progress(f"starting {name}")
            try:
                peer = make(name)
                stack.callback(peer.stop)
                (folder / name).mkdir()
                peer.start(folder / name)
            except (Missing, SnowmeltError) as error:
                missing[name] = str(error)
            else:
                peers.append(peer)
        progress("")
        yield peers, missing
        progress("stopping")
    progress("")


def compare(peers: list[Peer], cells: list[Cell], rounds: int, bounds: Bounds) -> list[Row]:
    """A row for each cell and peer. A round is all cells, each with all peers."""
    rows = [
        Row(cell, peer.name)
        for cell in cells
        for peer in peers
        if cell.batch > 1 or not peer.batches_only
    ]
    by_name = {peer.name: peer for peer in peers}
    for number in range(1, rounds + 1):
        for row in rows:
            if not row.error:
                progress(f"round {number} of {rounds}, {row.cell}: {row.peer}")
                take_turn(row, by_name[row.peer], number, bounds)
    progress("")
    return rows


def take_turn(row: Row, peer: Peer, number: int, bounds: Bounds) -> None:
    """Adds a turn to the row, or says there why it failed."""
    cell = row.cell
    queue = f"{cell.name}-{number}"
    try:
        connect = peer.open(queue, cell)
        try:
            row.turns.append(turn(connect, cell, bounds))
        finally:
            peer.remove(queue)
    except TurnFailed as error:
        row.error = str(error)
    except Exception as error:  # whatever a client library raises is that peer's result
        row.error = f"{type(error).__name__}: {error}"


def progress(line: str) -> None:
    """One line that is written over, and only where somebody looks."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
