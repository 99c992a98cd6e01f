"""Each call of a client, each field at its extremes, and sequences of calls that are drawn."""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, Final

from snowmelt.core.errors import SnowmeltError
from snowmelt.wire.greeting import Role
from snowmelt_world.attack.forge import Forge
from snowmelt_world.attack.setting import OWN_PREFIX, AttackSetting, Target
from snowmelt_world.attack.speaking import Flood, connected, greeted, pour
from snowmelt_world.attack.tally import Tally

CONNECTIONS: Final = 2
"""Of each process to each node."""
READY_SECONDS: Final = 10.0
ITEMS_MAX: Final = 10_000
BYTES_MAX: Final = 32 << 20


def attack(setting: AttackSetting, number: int, tally: Tally, goes_on: Callable[[], bool]) -> None:
    """Floods each node with calls."""
    prepare(setting)
    forge = Forge.of_calls(setting.seed * 1_000 + number)
    floods = [
        Flood(_dial(setting, target, f"c-attack-{number}"), forge.loads(), tally, forge.heard)
        for target in setting.targets
        for _ in range(CONNECTIONS)
    ]
    pour(floods, goes_on)


def prepare(setting: AttackSetting) -> None:
    """Makes what calls of attackers name, with bounds: so they reach more than a refusal."""
    with (
        suppress(SnowmeltError),
        connected(setting.url, setting.attacker) as cluster,
    ):
        bounds: dict[str, Any] = {"max_items": ITEMS_MAX, "max_bytes": BYTES_MAX, "replicas": 2}
        cluster.fifo(f"{OWN_PREFIX}q", **bounds).put(b"one", timeout=READY_SECONDS)
        cluster.fifo(f"{OWN_PREFIX}parted", partitions=4, **bounds).put(
            b"one", timeout=READY_SECONDS
        )
        cluster.priority(f"{OWN_PREFIX}ranked", **bounds).put(
            b"1", priority=1, timeout=READY_SECONDS
        )
        cluster.fifo(f"{OWN_PREFIX}full", max_items=1).put(b"one", timeout=READY_SECONDS)
        cluster.fifo(f"{OWN_PREFIX}empty").stats(timeout=READY_SECONDS)


def _dial(setting: AttackSetting, target: Target, name: str) -> Callable[[], socket.socket]:
    """Each connection is another client: what the last one has waiting is not asked again."""
    numbers: Iterator[int] = count(1)
    return lambda: greeted(setting, target, f"{name}-{next(numbers)}", Role.CLIENT)
