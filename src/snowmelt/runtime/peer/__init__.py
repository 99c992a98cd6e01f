"""One process of a pool on a real network: plain sockets, and one thread that owns them.

A newcomer starts at `engine.py`, then `engine_thread.py` and `asking.py`. `links.py` knows who is
reached; a `link.py` has `outgoing.py` and `incoming.py`, by which a large object passes uncopied.
"""

from snowmelt.runtime.peer.config import PeerConfig
from snowmelt.runtime.peer.engine import Engine, EngineStatistics
from snowmelt.runtime.peer.limits import PeerLimits

__all__ = ["Engine", "EngineStatistics", "PeerConfig", "PeerLimits"]
