"""The peers take turns, so that a noisy minute of the machine hits all alike."""

from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.fifo.cell import Bounds, Cell
from benchmarks.fifo.disk import flushes
from benchmarks.fifo.load import Turn, TurnFailed, turn
from benchmarks.fifo.rounds import DISK_SECONDS
from benchmarks.fifo.row import DISK, Row
from benchmarks.fifo.starting import progress
from benchmarks.priority_peers_parts.peer import Peer
from benchmarks.priority_peers_parts.tasks import by_tasks

TASKS: Final = 64
CELLS: Final = (Cell(100, 1_000), Cell(100, 1), Cell(100, 1, TASKS))


def compare(peers: list[Peer], rounds: int, bounds: Bounds, folder: Path) -> list[Row]:
    """A row for each cell and peer, and one for the disk in each cell."""
    found: list[Row] = []
    for cell in CELLS:
        disk = Row(cell, DISK)
        rows = [Row(cell, peer.name, peer.flushes_first) for peer in peers]
        for number in range(1, rounds + 1):
            disk.turns.append(Turn(flushes(folder, DISK_SECONDS), None))
            for row, peer in zip(rows, peers, strict=True):
                progress(f"{cell}: round {number} of {rounds}, {peer.name}")
                take_turn(row, peer, f"{cell.queue}-{number}", bounds)
        found += [disk, *rows]
    progress("")
    return found


def take_turn(row: Row, peer: Peer, queue: str, bounds: Bounds) -> None:
    """Adds a turn to the row, unless one of its turns failed."""
    cell = row.cell
    if row.error:
        return
    if cell.lanes > 1:
        act = partial(turn, peer.tasks(queue, cell.lanes), work=by_tasks)
    else:
        act = partial(turn, peer.client(queue, cell.batch))
    try:
        row.turns.append(act(cell=cell, bounds=bounds))
    except TurnFailed as error:
        row.error = str(error)
