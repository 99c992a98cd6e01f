"""What a life is about, where a family has themes: which load meets which faults.

A bug shows where a certain load and a certain fault come together and nothing else is in the way.
Drawn apart, the two meet seldom; so a theme draws them together. More than half of the lives that
have one hold only faults that belong to it.
"""

from random import Random
from typing import Final

import msgspec

ANY: Final = "everything"


class Theme(msgspec.Struct, frozen=True):
    """How often it is drawn, and what it is about."""

    weight: int
    kinds: tuple[str, ...] = ()
    """The faults that belong to it; none: whatever is drawn."""
    least_nodes: int = 1
    calm: float = 0.15
    """How many of the lives with only its own faults have none at all."""
    alone: float = 0.6
    """How many of its lives hold only its own faults."""


THEMES: Final[dict[str, dict[str, Theme]]] = {
    "fifo": {
        ANY: Theme(26),
        "bounded": Theme(14, ("rolling-restart", "quick-restarts", "crash", "slow-node"), 4),
        "late readers": Theme(12, ("lost-disk", "crash", "client-pause", "delay"), 4, 0.5),
        "sparse numbers": Theme(6, ("crash", "loss", "client-pause")),
        "short leases": Theme(12, ("slow-disk", "long-pause", "pause", "slow-node", "loss"), 2),
        "lingering": Theme(7, ("crash", "lost-writes", "quick-restarts", "filling-disk")),
        "wide": Theme(5),
        "cuts": Theme(7, ("cut-links", "split", "one-door", "long-pause", "quick-restarts"), 4),
        "disks": Theme(5, ("failing-disk", "filling-disk", "full-disk", "flipped-bit"), 2),
        "older copies": Theme(3, ("older-disk", "rolling-restart", "quick-restarts", "pause"), 2),
    }
}
_DARK: Final = Theme(0, ("power-cut", "slow-node", "loss", "full-disk"), calm=0, alone=1)
_NIGHT: Final = Theme(0, ("power-cut", "pause", "duplication", "crash"), calm=0, alone=1)
_STALLED: Final = Theme(0, ("stalls", "slow-disk", "failing-disk"), calm=0, alone=1)
_BACKLOG: Final = Theme(0, ("client-pause", "delay"), 4, calm=0.7, alone=1)
OF_TWENTY: Final[dict[str, dict[int, tuple[str, Theme]]]] = {
    "fifo": {
        **dict.fromkeys((3, 8), ("backlog", _BACKLOG)),
        **dict.fromkeys((4, 14), ("power", _DARK)),
        **dict.fromkeys((9, 19), ("power", _NIGHT)),
        **dict.fromkeys((7, 17), ("stalls", _STALLED)),
    }
}
"""Which of any twenty seeds in a row have these themes; the others have what they had."""


def theme_of(protocol: str, seed: int) -> tuple[str, tuple[str, ...] | None, int]:
    """A life's theme; the only kinds of faults in it, or None for any; and how many nodes at least.

    >>> theme_of("echo", 1)
    ('everything', None, 1)
    """
    themes = THEMES.get(protocol, {ANY: Theme(1)})
    chance = Random(f"{seed}/{protocol}/theme")
    name = chance.choices(list(themes), [theme.weight for theme in themes.values()])[0]
    name, theme = OF_TWENTY.get(protocol, {}).get(seed % 20, (name, themes[name]))
    if not theme.kinds or chance.random() >= theme.alone:
        return name, None, theme.least_nodes
    most = min(3, len(theme.kinds))
    few = {theme.kinds[0], *chance.sample(theme.kinds, chance.randint(0, most))}
    if chance.random() < theme.calm:
        few = set()
    return name, tuple(kind for kind in theme.kinds if kind in few), theme.least_nodes
