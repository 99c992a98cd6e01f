"""The peers take turns, so that a noisy minute of the machine hits all alike.

All servers are up all the time, and one has work at a time.
"""

from pathlib import Path

from benchmarks.fifo.cell import Bounds, Cell
from benchmarks.fifo.disk import flushes
from benchmarks.fifo.load import Turn, TurnFailed, turn
from benchmarks.fifo.peer import Peer
from benchmarks.fifo.row import DISK, Row
from benchmarks.fifo.starting import progress
from benchmarks.fifo.tasks import by_tasks

DISK_SECONDS = 0.3


def compare(
    peers: list[Peer], cells: list[Cell], rounds: int, bounds: Bounds, folder: Path
) -> list[Row]:
    """A row for each cell and peer, and one for the disk in each cell."""
    found: list[Row] = []
    for cell in cells:
        disk = Row(cell, DISK)
        here = [peer for peer in peers if cell.way in peer.ways]
        rows = [Row(cell, peer.name, peer.flushes_first) for peer in here]
        for number in range(1, rounds + 1):
            disk.turns.append(Turn(flushes(folder, DISK_SECONDS), None))
            for row, peer in zip(rows, here, strict=True):
                progress(f"{cell}: round {number} of {rounds}, {peer.name}")
                take_turn(row, peer, f"{cell.queue}-{number}", bounds)
        found += [disk, *rows]
    progress("")
    return found


def take_turn(row: Row, peer: Peer, queue: str, bounds: Bounds) -> None:
    """Adds a turn to the row, unless one of its turns failed."""
    if row.error:
        return
    cell = row.cell
    try:
        if cell.tasks:
            row.turns.append(turn(peer.tasks(queue, cell.lanes), cell, bounds, by_tasks))
        else:
            row.turns.append(turn(peer.client(queue, cell.batch), cell, bounds))
    except TurnFailed as error:
        row.error = str(error)
