"""What the priority queue is measured against: the best of the others, all of which flush first.

Three copies are held against all of them, and against those alone that have three copies too. Who
loses what it hands out is no rival: only any priorities in batches are held against each of those.
"""

from collections.abc import Iterator
from typing import Final

from benchmarks.fifo.cell import Cell
from benchmarks.fifo.row import DISK, Row
from benchmarks.pool_peers_parts.bars import Bar
from benchmarks.priority_peers_parts.peers import ANY, COPIES, LIMITS, LOSING, OURS

BATCHES: Final = 5.0
ANY_BATCHES: Final = 3.0
SINGLES: Final = 1.0
"""At least so many times the best of the others."""


def bars(rows: list[Row]) -> Iterator[Bar]:
    """All comparisons that these rows allow: items a second, put, then got and acknowledged."""
    for cell in dict.fromkeys(row.cell for row in rows):
        here = [row for row in rows if row.cell == cell and row.peer != DISK]
        others = [row for row in here if row.peer not in (*OURS, *LIMITS, *LOSING)]
        losing = [row for row in here if row.peer in LOSING and row.both_rate is not None]
        rivals = [row for row in others if row.both_rate is not None]
        alike = [row for row in rivals if row.peer in COPIES]
        for row in here:
            if row.peer in OURS:
                yield from against(row, rivals)
            if row.peer in OURS and row.peer in COPIES and alike != rivals:
                yield from against(row, alike)
            if row.peer in ANY and cell.batch > 1:
                for rival in losing:
                    yield from against(row, [rival])


def against(row: Row, rivals: list[Row]) -> Iterator[Bar]:
    """One of ours beside the best of these."""
    best = max(rivals, key=lambda rival: rival.both_rate or 0.0, default=None)
    if best is not None and (value := best.ratio(row)) is not None:
        wanted = least(row.cell, row.peer)
        says = f">= {wanted:g}" if wanted else ""
        yield Bar(f"{row.cell}, {row.peer} / {best.peer}", value, says, value >= wanted)


def least(cell: Cell, peer: str) -> float:
    """What the ratio is to be; 0 where nothing is asked: copies cost where nothing is shared."""
    alone = peer in (OURS[0], ANY[0])
    if cell.batch > 1:
        return BATCHES if peer not in ANY else ANY_BATCHES * alone
    return SINGLES * alone
