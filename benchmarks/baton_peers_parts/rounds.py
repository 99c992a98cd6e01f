"""The peers take turns within each round, so that a noisy minute of the machine hits all alike."""

from benchmarks.baton_peers_parts.cell import Cell
from benchmarks.baton_peers_parts.peer import Peer
from benchmarks.baton_peers_parts.row import Row
from benchmarks.baton_peers_parts.turn import turn
from benchmarks.fifo.starting import progress
from benchmarks.pool_peers_parts.turn import TurnFailed


def compare(peers: list[Peer], cells: list[Cell], rounds: int, seconds: float) -> list[Row]:
    """A row for each cell and peer. A round is all cells, each with all peers."""
    rows = [Row(cell, peer.name) for cell in cells for peer in peers]
    by_name = {peer.name: peer for peer in peers}
    for number in range(1, rounds + 1):
        for row in rows:
            if not row.error:
                progress(f"round {number} of {rounds}, {row.cell}: {row.peer}")
                take_turn(row, by_name[row.peer], f"{row.cell.name}-{number}", seconds)
    progress("")
    return rows


def take_turn(row: Row, peer: Peer, lock: str, seconds: float) -> None:
    """Adds a turn to the row, or says there why it failed."""
    try:
        row.turns.append(turn(peer, row.cell, lock, seconds))
    except TurnFailed as error:
        row.error = str(error)
    except Exception as error:  # whatever a client library raises is that peer's result
        row.error = f"{type(error).__name__}: {error}"
