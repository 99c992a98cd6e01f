"""The options of a run; every process of it is given the same."""

from pathlib import Path
from typing import Any

import msgspec

from snowmelt_world.storms.faults import Fault


class StormSetting(msgspec.Struct, frozen=True, kw_only=True):
    """As the command was called, and where its nodes are."""

    kind: str
    nodes: int
    clients: int
    seconds: float
    seed: int
    faults: frozenset[Fault]
    """Those that are done."""
    every: float
    """Seconds from one fault to the next, on average; 0 for none."""
    at_once: int
    """So many faults are on at a time at most."""
    heartbeat: float
    etcd: bool
    """Whether an etcd decides on the members, and not the first node's disk."""
    plant: str
    given: dict[str, Any]
    """The family's settings that were given; `StormFamily.read` reads them."""
    place: str
    """The folder of this run."""
    url: str = ""
    host: str = "127.0.0.1"
    """Where a process of this run is; each has an address of its own when links are injured."""

    @property
    def folder(self) -> Path:
        return Path(self.place)
