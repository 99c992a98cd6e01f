"""The peers take turns within each round, so that a noisy minute of the machine hits all alike.

All servers are up all the time, and one has work at a time.
"""

from collections.abc import Sequence

from benchmarks.peers.comparison import Limits, Peer, TurnFailed, Work
from benchmarks.peers.rows import Row
from benchmarks.peers.starting import progress


def compare(peers: Sequence[Peer], works: Sequence[Work], rounds: int, limits: Limits) -> list[Row]:
    """A row for each kind of work and each peer that does it."""
    by_name = {peer.name: peer for peer in peers}
    rows = [Row(work, peer.name, peer.above) for work in works for peer in peers if work.fits(peer)]
    for number in range(1, rounds + 1):
        for at, row in enumerate(rows):
            if not row.error:
                done = (number - 1 + at / len(rows)) / rounds
                progress(f"round {number} of {rounds}, {row.work}: {row.peer}", done)
                take_turn(row, by_name[row.peer], number, limits)
    progress("")
    return rows


def take_turn(row: Row, peer: Peer, number: int, limits: Limits) -> None:
    """Adds a turn to the row, or says there why it failed."""
    try:
        row.turns.append(row.work.act(peer, f"{row.work.name}-{number}", limits))
    except TurnFailed as error:
        row.error = str(error)
    except Exception as error:  # whatever a client library raises is that peer's result
        row.error = f"{type(error).__name__}: {error}"
