"""What the baton is measured against: half the best time of the others, and no herd."""

from collections.abc import Iterator
from typing import Final

from benchmarks.baton_peers_parts.peers import KINDS, OURS, RIVALS
from benchmarks.baton_peers_parts.row import HAND_OVER, Row, ratio
from benchmarks.pool_peers_parts.bars import Bar

QUICKER: Final = {HAND_OVER: 0.5, "hand_over_mean_us": 0.5, "free_p50_us": None}
"""At most so many times the best of the others; no bar for how long nobody has it."""
HERD: Final = 2.0
"""At most so many times the messages of few waiters, when there are many."""
FEW_AND_MANY: Final = ("now-4", "now-32")
MESSAGES: Final = "messages_per_hand_over"

Rows = dict[tuple[str, str], Row]
"""By cell and peer."""


def bars(rows: list[Row]) -> Iterator[Bar]:
    """All comparisons that these rows allow."""
    found = {(row.cell.name, row.peer): row for row in rows}
    cells = list(dict.fromkeys(row.cell.name for row in rows))
    for ours in OURS:
        for cell in cells:
            yield from against_best(found, cell, ours)
    for peer in KINDS:
        few, many = (found.get((cell, peer)) for cell in FEW_AND_MANY)
        value = None if few is None or many is None else ratio(many, few, MESSAGES)
        if value is not None:
            name = f"messages a hand-over, {FEW_AND_MANY[1]} / {FEW_AND_MANY[0]}, {peer}"
            wanted = f"<= {HERD:g}" if peer in OURS else ""
            yield Bar(name, value, wanted, not wanted or value <= HERD)


def against_best(found: Rows, cell: str, ours: str) -> Iterator[Bar]:
    """Our times to those of the rival that is best in each."""
    mine = found.get((cell, ours))
    for figure, wanted in QUICKER.items():
        ratios = {
            rival: value
            for rival in RIVALS
            if mine and (other := found.get((cell, rival)))
            if (value := ratio(mine, other, figure)) is not None
        }
        if not ratios:
            return
        best = max(ratios, key=ratios.__getitem__)
        name = f"{cell}, {figure.removesuffix('_us')}, {ours} / {best}"
        if wanted is None:
            yield Bar(name, ratios[best])
        else:
            yield Bar(name, ratios[best], f"<= {wanted:g}", ratios[best] <= wanted)
