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
    weight: int
    kinds: tuple[str, ...] = ()
    """The faults that belong to it; none: whatever is drawn."""
    least_nodes: int = 1
    most_nodes: int = 9
    calm: float = 0.15
    """How many of the lives with only its own faults have none at all."""
    alone: float = 0.6
    """How many of its lives hold only its own faults."""


THEMES: Final[dict[str, dict[str, Theme]]] = {
    "queue": {
        ANY: Theme(26),
        "bounded": Theme(14, ("rolling-restart", "quick-restarts", "crash", "slow-node"), 4),
        "late readers": Theme(12, ("lost-disk", "crash", "client-pause", "delay"), 4, calm=0.5),
        "sparse numbers": Theme(6, ("crash", "loss", "client-pause")),
        "short leases": Theme(12, ("slow-disk", "long-pause", "pause", "slow-node", "loss"), 2),
        "lingering": Theme(7, ("crash", "lost-writes", "quick-restarts", "filling-disk")),
        "wide": Theme(5),
        "cuts": Theme(7, ("cut-links", "split", "one-door", "long-pause", "quick-restarts"), 4),
        "disks": Theme(5, ("failing-disk", "filling-disk", "full-disk", "flipped-bit"), 2),
        "older copies": Theme(3, ("older-disk", "rolling-restart", "quick-restarts", "pause"), 2),
    },
    "parted": {
        ANY: Theme(60),
        "data nodes": Theme(25, least_nodes=2),
        "names": Theme(15),
    },
    "baton": {
        ANY: Theme(18),
        "programs": Theme(15),
        "short holds": Theme(
            18, ("restart-in-cut", "quick-restarts", "cut-links", "crash", "loss", "delay"), 3, 5
        ),
        "idle": Theme(
            12, ("lost-disk", "rolling-restart", "quick-restarts", "crash", "older-disk"), 3
        ),
        "counting": Theme(
            12, ("filling-disk", "full-disk", "failing-disk", "crash", "slow-disk", "loss"), 3
        ),
        "disks": Theme(
            8, ("older-disk", "flipped-bit", "torn-record", "lost-disk", "rolling-restart"), 3
        ),
        "new disks": Theme(7, ("lost-disk", "rolling-restart"), 3, 5),
        "cuts": Theme(5, ("cut-links", "split", "one-door", "long-pause", "client-pause"), 4),
        "clocks": Theme(5, ("suspend", "clock-jump", "clock-skew", "long-pause", "pause"), 3),
    },
    "pool": {
        ANY: Theme(48),
        "links": Theme(16, ("cut-links", "partition", "crash", "delay"), 5, calm=0.3),
        "once": Theme(14, ("crash", "cut-links", "loss"), 5, calm=0.6),
        "large": Theme(10, ("pause", "partition", "crash"), 5, calm=0.4),
        "leaving": Theme(12, ("partition", "crash", "pause"), 5, calm=0.5),
        "standing still": Theme(0, ("pause",), 6, calm=1, alone=1),
    },
    "multicast": {
        ANY: Theme(70),
        "cuts": Theme(15, ("restart-in-cut", "cut-links", "split", "crash", "loss"), 3),
        "disks": Theme(15, ("older-disk", "lost-disk", "rolling-restart", "crash"), 3),
    },
}
_DARK: Final = Theme(0, ("power-cut", "slow-node", "loss", "full-disk"), calm=0, alone=1)
_NIGHT: Final = Theme(0, ("power-cut", "pause", "duplication", "crash"), calm=0, alone=1)
_STALLED: Final = Theme(0, ("stalls", "slow-disk", "failing-disk"), calm=0, alone=1)
_BACKLOG: Final = Theme(0, ("client-pause", "delay"), 4, calm=0.7, alone=1)
_BURSTS: Final = Theme(
    0, ("quick-restarts", "rolling-restart", "crash", "slow-disk"), 2, 3, calm=0, alone=0.8
)
_FEW: Final = Theme(
    0, ("slow-disk", "crash", "cut-links", "rolling-restart", "quick-restarts"), 3, 5, 0.1, 1
)
OF_TWENTY: Final[dict[str, dict[int, tuple[str, Theme]]]] = {
    "queue": {
        **dict.fromkeys((3, 8), ("backlog", _BACKLOG)),
        **dict.fromkeys((4, 14), ("power", _DARK)),
        **dict.fromkeys((6, 19), ("bursts", _BURSTS)),
        9: ("power", _NIGHT),
        **dict.fromkeys((7, 17), ("stalls", _STALLED)),
        **dict.fromkeys((1, 11), ("few copies", _FEW)),
    },
    "pool": dict.fromkeys((9, 19), ("standing still", THEMES["pool"]["standing still"])),
}
"""Which of any twenty seeds in a row have these themes; the others have what they had."""


def theme_of(
    protocol: str, seed: int, name: str | None = None
) -> tuple[str, Theme, tuple[str, ...] | None]:
    """A life's theme, by its name too; and the only kinds of faults in it, or None for any.

    It is drawn, unless one is named.

    >>> name, theme, only = theme_of("echo", 1)
    >>> name, only
    ('everything', None)
    """
    themes = THEMES.get(protocol, {ANY: Theme(1)})
    chance = Random(f"{seed}/{protocol}/theme")
    drawn = chance.choices(list(themes), [theme.weight for theme in themes.values()])[0]
    of_twenty = OF_TWENTY.get(protocol, {})
    drawn, theme = of_twenty.get(seed % 20, (drawn, themes[drawn]))
    if name is None:
        name = drawn
    else:
        theme = themes[name]
    if not theme.kinds or chance.random() >= theme.alone:
        return name, theme, None
    if not theme.kinds or chance.random() >= theme.alone:
        return name, theme, None
    most = min(3, len(theme.kinds))
    few = {theme.kinds[0], *chance.sample(theme.kinds, chance.randint(0, most))}
    if chance.random() < theme.calm:
        few = set()
    return name, theme, tuple(kind for kind in theme.kinds if kind in few)
