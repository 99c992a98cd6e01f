"""How much is asked of batons in one life, by its theme (`sim.themes`).

Where a token never rests nobody sees what happens to one that does; where everybody holds for
seconds, nothing happens while a node is away for a tenth of one.
"""

from random import Random
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, milliseconds, seconds
from snowmelt.protocols.baton.settings import BatonSettings
from snowmelt_world.themes import ANY

BATON: Final = BatonSettings()
DROWSY: Final = (BATON.awake, BATON.awake, seconds(1))
"""In every third life a name is folded as soon as nobody wants it for a moment."""
USERS_MAX: Final = 10


class Load(msgspec.Struct, kw_only=True):
    users: tuple[int, int] = (4, USERS_MAX)
    """How many seats there are, at least and at most."""
    batons: tuple[int, ...] = (1, 1, 2, 3)
    """How many batons, one of these."""
    hold: Duration = seconds(8)
    short: Duration = milliseconds(400)
    """The longest hold, and the longest short one."""
    pause: Duration = seconds(4)
    """The longest between two wishes."""
    ways: tuple[int, int, int, int] = (74, 3, 16, 7)
    """How many of a hundred work, hog, say nothing more, or die."""
    callers: tuple[int, int] = (0, 0)
    """How many programs there are that use the shipped steps, at least and at most."""
    counts: float = 0.6
    """How many of those count, rather than carry a value."""
    awake: Duration = BATON.awake

    @property
    def brisk(self) -> bool:
        """Whether nobody holds for so long that others wait long for it."""
        return not self.ways[1] and self.hold <= seconds(1)


def load_of(chance: Random, theme: str) -> Load:
    load = Load(awake=chance.choice(DROWSY))
    match theme:
        case "short holds":
            load.users, load.batons = (2, 3), (1,)
            load.hold, load.short = milliseconds(100), milliseconds(chance.choice((10, 20, 60)))
            load.pause = milliseconds(chance.choice((20, 40, 400)))
            load.ways, load.callers = (97, 0, 2, 1), (0, 1)
        case "idle":
            load.users, load.batons = (1, 3), (1, 2)
            load.hold, load.pause, load.ways = seconds(1), seconds(20), (96, 0, 3, 1)
            load.awake = chance.choice((BATON.awake, seconds(1), seconds(4)))
        case "new disks":
            load.users, load.batons, load.callers = (3, 6), (1,), (0, 1)
            load.hold = load.short = milliseconds(50)
            load.pause, load.ways = milliseconds(chance.choice((100, 1_000))), (98, 0, 1, 1)
        case "counting":
            load.users, load.batons = (1, 2), (1,)
            load.callers, load.counts = (2, 4), 0.8
            load.pause = milliseconds(chance.choice((300, 2_000)))
        case "programs" | "cuts" | "clocks":
            load.callers = (1, 3)
        case "disks":
            load.callers = (1, 3)
            load.pause = chance.choice((seconds(1), seconds(10)))
        case _:
            assert theme == ANY, theme
    return load
