"""The peers take turns within each round, so that a noisy minute of the machine hits all alike."""

from benchmarks.fifo.starting import progress
from benchmarks.pool_peers_parts.cell import Cell
from benchmarks.pool_peers_parts.peer import Peer
from benchmarks.pool_peers_parts.row import Row
from benchmarks.pool_peers_parts.turn import Bounds, TurnFailed, turn


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
