"""What calls make nodes say to each other, in seconds of a processor (`hearing.py`, rule 7).

Each is what a flood of that call cost three nodes together, beyond what the node that heard it did
for it at once: names are made, said to others, watched and asked after for a while. Stated, not
measured: who is heard next does not hang on the noise of a busy machine.
"""

from typing import Any, Final

from snowmelt.protocols.baton.calls import Acquire
from snowmelt.protocols.multicast.calls import Listen, Publish
from snowmelt.protocols.pool.introductions import Introduce
from snowmelt.protocols.queue.api.calls import Open

_SECONDS: Final[dict[type, float]] = {
    Acquire: 0.0015,
    Listen: 0.0003,
    Publish: 0.0001,
    Introduce: 0.0003,
    Open: 0.002,
}


def caused(call: Any) -> float:
    """Of one call.

    >>> from snowmelt.protocols.queue.api.settings import QueueSettings
    >>> caused(Open("q", None, make=False)), caused(Open("q", QueueSettings()))
    (0.0, 0.002)
    """
    kind = type(call)
    return 0.0 if kind is Open and not call.make else _SECONDS.get(kind, 0.0)
