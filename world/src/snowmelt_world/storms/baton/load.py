"""What workers of a run do with batons."""

from random import Random
from typing import Final

import msgspec

from snowmelt_world.storms.faults import Fault
from snowmelt_world.storms.setting import StormSetting

LONG_SECONDS: Final = 2.0
LONG_SHARE: Final = 0.05
OLD: Final = "old"
FENCE: Final = "fence"
VALUE: Final = "value"
ORDER: Final = "order"
PLANTS: Final = (OLD, FENCE, VALUE, ORDER)
"""A worker passes by the guard with a fence that it had before, reports the fence after its own,
leaves another value than it writes down, or writes down that it asked long before it did."""


class BatonSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `--set` can change; all in seconds but two."""

    batons: int = 2
    timeout: float = 60.0
    """How long a worker waits for a turn."""
    hold: float = 0.3
    """Most holds' longest; a few last two."""
    between: float = 0.05
    """From the check of a hold to the act under it, at most."""
    pause: float = 0.1
    """From one turn of a worker to its next wish, on average."""
    save: float = 0.1
    """How likely a holder saves a value."""
    fork_every: float = 4.0
    """From one fork of a worker to its next, on average."""
    storm: float = 25.0
    calm: float = 15.0
    last: float = 21.0
    """The calm at the end."""
    settle: float = 9.0
    """After the last fault, until the order is that of the queue."""
    serve: float = 12.0
    """After that, until everybody has had every baton."""
    overtaking: float = 0.5
    """Who asks so much later may not come first."""
    late: float = 3.0
    """A wish may last so much longer than its timeout."""


class BatonLoad(msgspec.Struct, frozen=True):
    """The batons of a run."""

    setting: StormSetting
    settings: BatonSettings

    @property
    def batons(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(f"chaos-{one}" for one in range(self.settings.batons))

    @property
    def fork_every(self) -> float:
        """0 for never."""
        return self.settings.fork_every if Fault.FORK in self.setting.faults else 0.0

    def url(self, worker: int) -> str:
        """Where a worker connects to: each to another node."""
        urls = rotated(self.setting.url)
        return urls[worker % len(urls)]

    def held(self, chance: Random) -> float:
        """How many seconds one hold is to last."""
        return (
            LONG_SECONDS if chance.random() < LONG_SHARE else chance.uniform(0, self.settings.hold)
        )


def rotated(url: str) -> tuple[str, ...]:
    """One URL for each node of a cluster's: that node first, and then the others behind it.

    >>> rotated("snowmelt://a:1,b:2,c:3")
    ('snowmelt://a:1,b:2,c:3', 'snowmelt://b:2,c:3,a:1', 'snowmelt://c:3,a:1,b:2')
    """
    scheme, _, places = url.rpartition("//")
    nodes = places.split(",")
    return tuple(f"{scheme}//{','.join(nodes[one:] + nodes[:one])}" for one in range(len(nodes)))
