"""What a holder of a baton can know and set without asking a node: the same for both faces.

A hold is handed out or given back, whatever comes between:

1. A caller that is interrupted before it has the holder gives the hold up. A hold whose holder was
   dropped is given up behind the scenes, as by a holder that failed. The word of that is left by no
   instruction of Python: a handler of signals could raise within one.
2. So is one whose `with` ends since a generator or a coroutine is dropped: that may be anywhere,
   and nothing is waited for there.
3. A release that is broken off is said again behind the scenes.
4. A `with` of the baton itself gives up what it took, wherever it ends: a generator may be closed
   by another thread or task than went on with it.
"""

import sys
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, Generic, Protocol, TypeVar

from snowmelt.client.baton.steps import BatonHold
from snowmelt.client.connection.staying import stays
from snowmelt.core.batch import Buffer

H = TypeVar("H")


class EnteredBlocks(Generic[H]):
    """What is held by each `with` of one baton, by the frame that the `with` is in: rule 4.

    Where a frame is not known, as of an `ExitStack`, the newest of the same thread or task is
    meant, whose key is given with it.
    """

    def __init__(self) -> None:
        # Frames and tasks themselves would never be dropped, nor the generators that they know.
        self._held: list[tuple[int, int, H]] = []

    def enter(self, frame: FrameType, key: int, held: H) -> None:
        """Held by a `with` of this frame from now on."""
        self._held.append((id(frame), key, held))

    def leave(self, frame: FrameType, key: int) -> H:
        """The `with` of this frame ends; what it held."""
        own = [one for one in self._held if one[0] == id(frame)]
        own = own or [one for one in self._held if one[1] == key] or self._held
        self._held.remove(own[-1])
        return own[-1][2]

    def forget(self, held: H) -> None:
        """No `with` came of it."""
        self._held = [one for one in self._held if one[2] is not held]


class DropNotice(weakref.ref[Any]):
    """What is left of a dropped holder, so that its hold can be given up (rule 1)."""

    __slots__ = ("hold", "way")

    hold: BatonHold
    way: Any
    """The connection that it came by, where it has one of its own."""


def leave_notice(
    holder: "HeldBaton", hold: BatonHold, way: object, leave: Callable[[DropNotice], object]
) -> None:
    """Once the holder is dropped its word is left by this, which is to be none of Python's own."""
    word = DropNotice(holder, leave)
    word.hold, word.way = hold, way
    hold.word = word


class DropListener(Protocol):
    """Gives up the holds of dropped holders."""

    def look(self) -> None:
        """A dropped holder may have left a notice."""


class HeldBaton:
    __reduce__ = stays("send its fence, by which others recognise the newest holder")

    def __init__(self, hold: BatonHold) -> None:
        self._hold = hold

    def __repr__(self) -> str:
        return f"Held({self.name!r}, fence={self.fence})"

    @property
    def name(self) -> str:
        return self._hold.name

    @property
    def fence(self) -> int:
        """A number larger than that of anyone who held this baton before."""
        return self._hold.fence

    @property
    def made(self) -> int:
        """The fence with which the baton was made.

        When it is another than the last holder saw, the baton was lost and made again since: its
        value is the newest that was left somewhere, and none older than the one last saved.
        """
        return self._hold.made

    @property
    def value(self) -> bytes:
        """What the last holder left. What you set goes on when you give the baton up.

        It travels from holder to holder; the root's disk gets it a little later, so a node that
        dies just then may take it along. `save` waits for that disk.
        """
        return self._hold.value

    @value.setter
    def value(self, value: Buffer) -> None:
        self._hold.set_value(value)

    @property
    def lost(self) -> bool:
        """Whether it was lost, as far as is known here."""
        self._hold.look()
        return self._hold.lost

    @property
    def seconds_left(self) -> float:
        """How long it is surely yours, if no node is heard of any more."""
        return self._hold.seconds_left

    def check(self) -> None:
        """Raises `BatonLost` when it is not yours any more."""
        self._hold.check()


class AsyncHeldBaton(HeldBaton):
    """The same on an event loop, whose renewer would only look for words now and then."""

    _renewer: DropListener

    def __del__(self) -> None:
        if self._hold.word is not None and not sys.is_finalizing():
            self._renewer.look()
