"""Before memory is full, a node refuses what would take more of it, and serves what gives it back.

1. A node may take a share of the memory of its machine, or of its control group where that has less
   (`Limits.memory_share`). While it has more, whatever brings bodies is refused; gets and
   acknowledgements are served. It ends when the node has a little less than that.
2. What is freed is not always given back to the system: that is asked for, once in a while.

How a node looks for garbage: mostly in what came since it looked last.

What nobody has any more Python frees at once, but for what refers to itself. For that it looks
through all it holds, again and again: 0.4 µs of each object, and nobody is heard meanwhile. A node
under load holds hundreds of thousands of objects, of which next to none refer to themselves.

1. What has survived a look through the old is *set aside*. So the next one goes through what came
   since, and that is soon: each costs some milliseconds, however much the node holds.
2. What is set aside and refers to itself stays when nobody has it any more. So a look goes through
   *all* once there is twice as much set aside as after the last of these, and `ROOM` more.
3. What ends again and again refers to nothing that refers to it, or lets go of it at its end:
   connections, calls, and errors that are kept. So rule 2 finds little, and is needed rarely.

This is for a process that is a node, and nothing else: in another one garbage is its program's.
"""

import asyncio
import ctypes
import gc
import logging
import os
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Final

from snowmelt.runtime.logs import tell
from snowmelt.runtime.statistics import CostSummary, sized

LOOK_SECONDS: Final = 0.25
ENOUGH: Final = 0.95
"""With so much of what it may have the alarm ends."""
TRIM_LOOKS: Final = 40
"""So many looks lie between two tries to give back what is free."""
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
GROUPS: Final = Path("/sys/fs/cgroup")
SOON: Final = 3
"""After so many looks through the younger the old have their turn: about 30,000 new objects."""
ROOM: Final = 500_000
"""So much may be set aside before all is looked through: in the worst case garbage of 100 MB."""


def resident() -> int:
    """Bytes of memory that this process has; 0 where the system does not say."""
    try:
        file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return int(os.read(file, 256).split()[1]) * PAGE
    finally:
        os.close(file)


def of_machine(groups: Path = GROUPS, mine: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes of memory that there are for this process."""
    bounds = [os.sysconf("SC_PHYS_PAGES") * PAGE]
    with suppress(OSError):
        own = groups / mine.read_text(encoding="utf-8").rpartition("::")[2].strip().lstrip("/")
        for folder in (own, *own.parents):
            with suppress(OSError, ValueError):  # no bound is "max"
                bounds.append(int((folder / "memory.max").read_text(encoding="ascii")))
    return min(bounds)


class MemoryAlarm:
    """Of one process.

    >>> alarm = MemoryAlarm("n1", 1000)
    >>> alarm.see(999); alarm.why
    ''
    >>> alarm.see(1001); alarm.why
    'n1 has 1001.0 B of memory, of 1000.0 B: it takes nothing more until it has less'
    >>> alarm.see(960); bool(alarm.why); alarm.see(940); alarm.why
    True
    ''
    """

    def __init__(self, me: str, most: int) -> None:
        self.why = ""
        """Why nothing more is taken; nothing while all is well."""
        self.refused = 0
        self._me = me
        self._most = most
        self._looks = 0
        self._next: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Looks how it is, from now on."""
        self._next = asyncio.get_running_loop().call_later(LOOK_SECONDS, self.begin)
        self.see(resident())
        if self.why:
            if self._looks % TRIM_LOOKS == 0:  # rule 2
                Thread(target=_trim, name="snowmelt-trim", daemon=True).start()
            self._looks += 1

    def end(self) -> None:
        if self._next is not None:
            self._next.cancel()

    def see(self, used: int) -> None:
        """So much memory is taken."""
        if used > self._most and not self.why:
            text = f"{self._me} has {sized(used)} of memory, of {sized(self._most)}"
            self.why, self._looks = f"{text}: it takes nothing more until it has less", 0
            tell("memory is nearly full: puts are refused", logging.WARNING, node=self._me)
        elif self.why and used < ENOUGH * self._most:
            self.why = ""
            tell("memory has room again", node=self._me, refused=self.refused)

    def summary(self) -> CostSummary:
        return CostSummary(resident(), self._most, self.refused)


def _trim() -> None:
    with suppress(OSError, AttributeError):  # other systems have no such call
        ctypes.CDLL(None).malloc_trim(0)


class GarbageLooks:
    """What Python's collector tells of its looks, and what is done about it."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._aside = 0
        """So much is set aside, or less: what was freed since is not counted."""
        self._enough = 0
        """With more than this all is looked through."""
        self._through_all = False

    def begin(self) -> None:
        """What is loaded is looked through, and set aside; from now on these rules hold."""
        younger, old, _ = gc.get_threshold()
        gc.set_threshold(younger, old, SOON)
        gc.collect()
        self._set_aside()
        gc.callbacks.append(self.told)
        gc.collect()  # of next to nothing: the next look comes with a quarter of what this leaves

    def told(self, phase: str, look: dict[str, Any]) -> None:
        """A look begins, or has ended."""
        if look["generation"] < 2:  # not the old
            return
        if phase == "start":
            if self._aside > self._enough:
                self._aside = gc.get_freeze_count()  # takes some milliseconds itself
            self._through_all = self._aside > self._enough
            if self._through_all:
                gc.unfreeze()
        elif self._through_all:
            self._set_aside()
        else:
            self._aside += len(gc.get_objects(2))
            gc.freeze()

    def _set_aside(self) -> None:
        """All that was looked through just now."""
        gc.freeze()
        self._aside = gc.get_freeze_count()
        self._enough = 2 * self._aside + self._room
