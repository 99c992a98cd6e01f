"""Where a door's queues are: a cluster, or a folder of this process.

A cluster may be shared by threads, and opens anew by itself after a fork. A folder belongs to one
process, and is opened once in it.
"""

import atexit
import os
import threading
from pathlib import Path
from typing import Any, Final, TypeAlias

import snowmelt
from snowmelt.core.errors import QueueExists, Unavailable, Unreachable

Place: TypeAlias = snowmelt.Cluster | snowmelt.EmbeddedCluster

AWAY: Final = (Unavailable, Unreachable, snowmelt.OutcomeUnknown)
"""Errors that may end by themselves; what was asked for may have been done or not."""

_FOLDERS: dict[tuple[int, Path], snowmelt.EmbeddedCluster] = {}
_OPENING: list[threading.Lock] = [threading.Lock()]


def opened(where: str | os.PathLike[str], **options: Any) -> Place:
    """The cluster of a URL, or the folder of a path, which is opened once in each process.

    >>> opened("snowmelt://127.0.0.1:4410").identity
    ''
    """
    if isinstance(where, str) and where.startswith("snowmelt://"):
        return snowmelt.connect(where, **options)
    key = os.getpid(), Path(where).absolute()
    with _OPENING[0]:
        if key not in _FOLDERS:
            _FOLDERS[key] = snowmelt.open(Path(where))
            atexit.register(closed, _FOLDERS[key])
        return _FOLDERS[key]


def ranked(place: Place, name: str, priorities: int = 0) -> Any:
    """A queue whose largest priority comes first, of so many or any; made when it is not there.

    One that was made with other settings, of a lease perhaps, keeps these.
    """
    options = {"priorities": priorities or int, "largest_first": True}
    queue: Any = place.priority(name, **options)  # type: ignore[arg-type]  # it takes both
    try:
        queue.create()
    except QueueExists:
        queue = place.priority(name)
        check_ranked(name, queue.stats().settings, priorities)
    return queue


def check_ranked(name: str, settings: Any, priorities: int) -> None:
    """Raises `QueueExists` for a queue whose priorities are not these; 0 are any."""
    if not settings.largest_first or settings.floats or settings.priorities != priorities:
        what = f"of {priorities} priorities" if priorities else "of any whole priorities"
        raise QueueExists(f"queue {name} is not one {what}, the largest first; delete or rename it")


def closed(place: Place) -> None:
    """Closes what `opened` gave."""
    for key, folder in list(_FOLDERS.items()):
        if folder is place:
            del _FOLDERS[key]
            if key[0] != os.getpid():
                return  # it is the parent's
    place.close()


def _forked() -> None:
    _OPENING[0] = threading.Lock()


os.register_at_fork(after_in_child=_forked)
