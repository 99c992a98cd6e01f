"""One process of a pool on a real network: plain sockets, driven by whoever calls.

A newcomer starts at `engine.py`, then `seat.py`. `links.py` knows who is reached; a `link.py` has
`outgoing.py` and `incoming.py`, by which a large object passes without being copied.
"""

from snowmelt.runtime.peer.engine import Engine, EngineStatistics, PeerConfig
from snowmelt.runtime.peer.limits import PeerLimits

__all__ = ["Engine", "EngineStatistics", "PeerConfig", "PeerLimits"]
