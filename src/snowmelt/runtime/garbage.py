"""How a node looks for garbage: mostly in what came since it looked last.

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

import gc
from typing import Any, Final

SOON: Final = 3
"""After so many looks through the younger the old have their turn: about 30,000 new objects."""
ROOM: Final = 500_000
"""So much may be set aside before all is looked through: in the worst case garbage of 100 MB."""


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
