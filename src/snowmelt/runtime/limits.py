"""Everything has a limit. Each has a default, a name, and an error that tells it."""

import resource
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.wire.framing import FRAME_BYTES_MAX

OTHER_FILES: Final = 1_000
"""Besides connections, so many files a node may have open."""
MOST: Final = 0xFFFF_FFFF  # what the length of a frame can say, and a hundred years in seconds


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a node lets others cost it.

    >>> Limits(connections=0)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: connections is 0; allowed: 1 to 4294967295
    """

    connections: int = 20_000
    strangers: int = 1_000  # connections whose other side has not shown who it is
    frame_bytes: int = FRAME_BYTES_MAX
    in_flight_bytes: int = 16 << 20  # of one connection: calls heard and not yet answered
    unsent_bytes: int = 2 << 20  # of one connection: above this, nothing more is read from it
    unsent_bytes_max: int = 128 << 20  # of one connection: above this, which takes a peer, cut off
    arriving_bytes: int = 512 << 20  # of all clients: large frames that have begun to come
    call_bytes: int = 1 << 30  # of all clients: calls heard and not yet answered
    answer_bytes: int = 1 << 30  # of all clients: answers to those who read slowly
    memory_share: float = 0.8  # of the machine's, or its control group's (`memory.py`)
    greeting_seconds: float = 10.0
    slow_reader_seconds: float = 10.0  # above `unsent_bytes` and hardly anything read: cut off
    slow_sender_seconds: float = 10.0  # has begun a large frame, and hardly goes on: cut off
    handshakes: int = 100  # of TLS with those who come, in a second
    dial_seconds: float = 5.0
    drain_seconds: float = 10.0
    metric_queues: int = 1_000  # so many have their name in metrics, the rest are told together

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            least = 1 if isinstance(value, int) else 0.001
            if not least <= value <= MOST:  # so that "nan" is refused too
                raise BadOption(name, value, f"{least} to {MOST}")


def raise_open_files(connections: int) -> None:
    """Lets this process have so many connections open, as far as the system allows.

    Most systems begin with 1,024 open files, and let each process have more for the asking.
    """
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
