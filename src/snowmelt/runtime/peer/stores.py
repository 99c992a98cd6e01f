"""Room for the blobs that are on their way into this process, over all its links.

1. A blob that is offered waits until there is room for it; so whatever a program asks for at a time
   comes, if later. Each link has a line of its own, and the links have their turns.
2. No link takes more than it leaves to others, nor more than can stand aside (rule 3): one that
   brings something already is passed over while that, with its next blob, is more.
3. What has been under way for longer than `FRESH` is slow, and stands aside: up to `ASIDE` of the
   room, or one blob, it takes nothing of the quarter that those have who begin. So a slow link
   holds up itself, and neither the others nor what is small.
4. A link that was to bring something, and of whose blobs nothing comes for longer than `silent`, is
   waited for no more, whatever else it says: its process stands still, perhaps. Its blobs are given
   up, the room is free, and whoever wanted them asks elsewhere. A look that comes late judges
   nobody, for this process itself may have stood still.
5. A part of the room is kept for blobs that begin unasked, of which a link has few bytes. When that
   is used up too the blob is refused, and nothing else.
6. Where nothing is under way but what stands aside, one blob finds room, however large. So where
   none may be larger than a quarter of all the room, there is never more under way than that.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from snowmelt.core.instant import SECOND, Duration, Instant, later, milliseconds
from snowmelt.runtime.clock import real_now

KEPT_FOR_UNASKED: Final = 1 / 4
KEPT_FOR_FRESH: Final = 1 / 4
ASIDE: Final = 1 / 2
FRESH: Final = milliseconds(500)
LOOKS: Final = milliseconds(250)
LATE: Final = Duration(SECOND)
"""After the look before, a look is late."""
FOR_EVER: Final = Instant(1 << 62)


class Bringing(Protocol):
    progress: Instant
    """When a blob of it began, or anything came of one that has room."""

    def room_for(self, number: int) -> None:
        """There is room for this one of its blobs, and it is taken."""

    def give_up(self) -> None:
        """Its blobs that are under way are not waited for any more; gives their room back."""


class _Blob(msgspec.Struct, frozen=True):
    size: int
    begun: Instant
    asked: bool


class Stores:
    """How many bytes of blobs are on their way into this process."""

    __slots__ = (
        "_clock",
        "_fresh",
        "_looked",
        "_of",
        "_silent",
        "_slow",
        "_slow_bytes",
        "_unasked",
        "_waiting",
        "bytes_max",
        "held",
        "next_look",
    )

    def __init__(
        self, bytes_max: int, silent: Duration, clock: Callable[[], Instant] = real_now
    ) -> None:
        self.held = 0
        self.bytes_max = bytes_max
        self.next_look = FOR_EVER
        """When `look` has something to do next."""
        self._clock = clock
        self._silent = silent
        self._looked = Instant(0)
        self._unasked = 0
        self._fresh: OrderedDict[tuple[Bringing, int], _Blob] = OrderedDict()
        self._slow: dict[tuple[Bringing, int], _Blob] = {}
        self._slow_bytes = 0
        self._of: dict[Bringing, int] = {}
        """How many bytes are under way on which link."""
        self._waiting: OrderedDict[Bringing, deque[tuple[int, int]]] = OrderedDict()
        """Numbers and sizes of what waits, by link; the first link has its turn next."""

    # --- blobs ------------------------------------------------------------------------------------

    def take(self, whose: Bringing, number: int, size: int) -> bool:
        """Takes room for a blob that has begun unasked (rule 5)."""
        full = self.held and self.held + size > self.bytes_max
        if full and self._unasked + size > KEPT_FOR_UNASKED * self.bytes_max:
            return False
        self._begin(whose, number, size, asked=False)
        self._plan()
        return True

    def offer(self, whose: Bringing, number: int, size: int) -> None:
        """Takes room for a blob when there is some: `room_for` tells, now or later (rule 1)."""
        self._waiting.setdefault(whose, deque()).append((number, size))
        self._grant()

    def give(self, whose: Bringing, number: int) -> None:
        """The room of this one is free again."""
        self._end(whose, number)
        self._grant()

    def forget(self, whose: Bringing, numbers: list[int]) -> None:
        """Nothing of it comes any more, of these neither, for which it had room."""
        self._waiting.pop(whose, None)
        for number in numbers:
            self._end(whose, number)
        self._grant()

    def look(self, now: Instant) -> None:
        """Now and then: for rules 3 and 4."""
        late = now > later(self._looked, LATE)
        self._looked = now
        for whose in () if late else list(self._of):
            if whose in self._of and now > later(whose.progress, self._silent):
                whose.give_up()
        self._grant()

    def _plan(self) -> None:
        if self._waiting:
            self.next_look = later(self._looked, FRESH)
        else:
            self.next_look = later(self._looked, LOOKS) if self._of else FOR_EVER

    # --- room -------------------------------------------------------------------------------------

    def _begin(self, whose: Bringing, number: int, size: int, *, asked: bool) -> None:
        now = self._clock()
        if whose not in self._of:
            self._of[whose] = 0
        whose.progress = now  # it has its time from now on
        self._of[whose] += size
        self.held += size
        self._unasked += 0 if asked else size
        self._fresh[whose, number] = _Blob(size, now, asked)

    def _end(self, whose: Bringing, number: int) -> None:
        name = whose, number
        blob = self._fresh.pop(name, None)
        if blob is None:
            blob = self._slow.pop(name)
            self._slow_bytes -= blob.size
        self.held -= blob.size
        self._unasked -= 0 if blob.asked else blob.size
        self._of[whose] -= blob.size
        if not self._of[whose]:
            del self._of[whose]

    def _grant(self) -> None:
        while self._waiting:
            self._age()
            whose = self._next()
            if whose is None:
                break
            waiting = self._waiting[whose]
            number, size = waiting.popleft()
            if waiting:
                self._waiting.move_to_end(whose)
            else:
                del self._waiting[whose]
            self._begin(whose, number, size, asked=True)
            whose.room_for(number)
        self._plan()

    def _next(self) -> Bringing | None:
        """Whose turn it is, if there is room for what that has (rules 1 and 2)."""
        for whose, waiting in self._waiting.items():
            _, size = waiting[0]
            mine = self._of.get(whose, 0)
            most = min(self.bytes_max - self.held, ASIDE * self.bytes_max)
            if not mine or mine + size <= most:
                return whose if self._fits(size) else None
        return None

    def _fits(self, size: int) -> bool:
        """Rules 3, 5 and 6."""
        if self.held + size <= (1 - KEPT_FOR_UNASKED) * self.bytes_max:
            return True
        aside = max(ASIDE * self.bytes_max, *(one.size for one in self._slow.values()), 0)
        fresh = self.held - min(self._slow_bytes, aside)
        return not fresh or fresh + size <= KEPT_FOR_FRESH * self.bytes_max

    def _age(self) -> None:
        oldest = self._clock() - FRESH
        while self._fresh:
            name, blob = next(iter(self._fresh.items()))
            if blob.begun > oldest:
                return
            del self._fresh[name]
            self._slow[name] = blob
            self._slow_bytes += blob.size
