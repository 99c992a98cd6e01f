"""A turn: fresh processes for one peer and one cell, and what they measured."""

import time
from typing import Final

from benchmarks.baton_peers_parts.cell import Cell
from benchmarks.baton_peers_parts.holds import Figures, figures, in_order
from benchmarks.baton_peers_parts.peer import Messages, Peer
from benchmarks.baton_peers_parts.work import Part, Signals, want
from benchmarks.pool_peers_parts.turn import expect, heard, processes
from benchmarks.pool_peers_parts.work import READY, run

START_SECONDS: Final = 60.0
STEADY_SECONDS: Final = 0.7
"""From the first asking to the window."""
END_SECONDS: Final = 30.0
"""How long after the window the last who waits may still wait."""


def turn(peer: Peer, cell: Cell, lock: str, seconds: float) -> Figures:
    """One peer's work on one cell; raises `TurnFailed`."""
    signals = Signals()
    connect = peer.connect()
    with processes() as crew:
        parts = [
            crew.start(run, want, Part, connect, cell, lock, number, signals)
            for number in range(len(cell.shares))
        ]
        expect(parts, READY, START_SECONDS)
        before = peer.messages()
        begin = time.monotonic_ns() + round(STEADY_SECONDS * 1e9)
        end = signals.end.value = begin + round(seconds * 1e9)
        signals.go.set()
        longest = STEADY_SECONDS + seconds + END_SECONDS
        holds = in_order([heard(part, longest) for part in parts])
        after = peer.messages()
        signals.leave.set()
    sent = Messages(*(now - then for now, then in zip(after, before, strict=True)))
    return figures(holds, begin, end, cell.waiters, sent)
