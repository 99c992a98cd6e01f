"""Looks at a queue that change nothing, and whether they were true of some moment of the call.

A get that found nothing, `stats`, `peek`, `Survey` and `ListGroups` are judged against what had
returned before they were asked. A node may say them only while it leads; one that was
replaced in its sleep would tell of the past.

1. A get finds nothing only if for a moment nothing was there that waited: an item waits from its
   put's answer to the call of its first lease, if there was no delivery before that, and it was
   never passed over since all who keep it are away.
2. Who shows the items that wait, from a position on, shows all of them up to the last one shown,
   none that was acknowledged before, and none that another held all the while. Who shows the one of
   a rank shows none that so many are before, all the while; nothing, where it went as it was read.
3. The numbers: a position told is below the tail; what was acknowledged is counted as done; what
   was told to be in the queue, and nobody tried to acknowledge, is in it, and nothing else is; the
   bounds are kept, and are those that were agreed (`agreed.py`); nothing is lost but what may be.
   No copies vanish while all is well.
4. A group is not behind what it was told.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from snowmelt.core.instant import Instant, milliseconds
from snowmelt.core.interval import Interval
from snowmelt_world.check.emptiness import Segment, find_covered
from snowmelt_world.check.history import Kind, Operation
from snowmelt_world.judge.lapses import Lapse
from snowmelt_world.judge.values import FOR_EVER, Numbers

if TYPE_CHECKING:
    from snowmelt_world.judge.positions import PositionLedger


COPIED_WITHIN: Final = milliseconds(250)
"""A put that was answered so soon did not go on without some of its copies."""


class Stay(msgspec.Struct, frozen=True):
    """An item that waits, between these instants, for certain."""

    position: int
    value: str
    since: Instant
    until: Instant


class Shown(msgspec.Struct, frozen=True):
    """A look at the items that wait, or at the dead."""

    process: str
    called: Instant
    said: Instant
    start: int
    dead: bool
    rank: int = 0
    """Where only one is shown."""
    by_key: bool = False
    """Whether they are shown by their priorities, where these have no number."""


class Pausing(msgspec.Struct):
    """From when on a queue may be paused, and when it is not any more, for certain."""

    asked: Instant
    until: Instant = FOR_EVER
    resumed: Instant = FOR_EVER
    """When a resumption of it was first told: by then it was paused, whatever is undone since."""


class Looks:
    def __init__(self, ledger: "PositionLedger") -> None:
        self._ledger = ledger
        self.quiet: Instant | None = None
        """From then on nothing is hurt, and everybody is there; None for never."""
        self.passed: dict[int, None] = {}
        """Positions that were passed over, as all who keep them were away."""
        self._empty: list[Operation] = []
        self._shown: list[tuple[Shown, dict[int, None]]] = []
        self._ranked: list[tuple[Shown, int]] = []
        self._pauses: list[Pausing] = []
        self._whole: Instant | None = None

    # --- as they come -----------------------------------------------------------------------------

    def empty(self, process: str, called: Instant, said: Instant) -> None:
        self._empty.append(Operation(process, Kind.GET, (), called, said))

    def passing(self, process: str, called: Instant, away: Sequence[Interval]) -> None:
        """These are had later, by whoever asks then; there are none when everybody is there."""
        for part in away:
            self.passed.update(dict.fromkeys(part))
        quiet = self.quiet is not None and self.quiet <= called
        if away and quiet and not self._ledger.excuses.any_hurt:
            text = f"{process} is told that those are away who keep {away[0]}; nobody is"
            self._ledger.wrong(text, process)

    def pausing(self, at: Instant) -> None:
        """From now on the queue may be paused."""
        self._pauses.append(Pausing(at))

    def resumed(self, asked: Instant, called: Instant, at: Instant) -> None:
        """What was asked then holds no longer, nor does what others resumed before this call.

        Another pause may have come since; and within a lapse, a resumption may be undone.
        """
        ended = [one for one in self._pauses if one.asked == asked or one.resumed <= called]
        for one in ended:
            one.resumed = min(one.resumed, at)
            if self._ledger.excuses.cover(called, at) is None:
                one.until = min(one.until, at)

    def lapsed(self, lapse: Lapse) -> None:
        """What was resumed within a lapse may be paused again."""
        for one in self._pauses:
            if one.until >= lapse.since:
                one.until = FOR_EVER

    def showed(self, look: Shown, positions: dict[int, None]) -> None:
        """Somebody was shown these (2)."""
        ledger = self._ledger
        if ledger.excuses.cover(look.called, look.said) is not None:
            return
        if look.rank:
            self._ranked += [(look, where) for where in positions]
        elif not look.dead:
            self._shown.append((look, positions))
        for where in positions:
            acked = ledger.acked.get(where)
            if acked is not None and acked < look.called:
                text = f"position {where} was acknowledged, and {look.process} is shown it"
                ledger.wrong(text, look.process)
            for held in ledger.holders.get(where, ()):
                all_the_while = held.returned < look.called and look.said < held.ends
                free = where in held.back or where in held.named or bool(ledger.leaps)
                if all_the_while and not free:
                    text = f"position {where} is {held.process}'s, and {look.process} is shown it"
                    ledger.wrong(text, look.process)

    def groups(self, done: dict[str, int], called: Instant, said: Instant) -> None:
        """Somebody heard with how many items groups are done (4)."""
        ledger = self._ledger
        if ledger.excuses.cover(called, said) is not None or ledger.released is not None:
            return
        for name, marks in ledger.marks.items():
            least = max((mark for at, mark in marks if at < called), default=0)
            if least and done.get(name, 0) < least:
                text = (
                    f"group {name} is done with {least} items, and is listed with {done.get(name)}"
                )
                ledger.wrong(text, name)

    def described(self, told: Numbers, called: Instant, said: Instant) -> None:
        """Somebody heard the numbers (3)."""
        ledger = self._ledger
        if ledger.excuses.cover(called, said) is None:
            self._bounds(told, called, said)
            self._tail(told, called)
            self._inside(told, called, said)
            self._copies(told, called, said)
        if not (told.short_of_copies or told.waiting_puts):
            ledger.excuses.whole(called)

    def _bounds(self, told: Numbers, called: Instant, said: Instant) -> None:
        """The bounds are kept at every moment; only what comes back from the dead is no put."""
        ledger, agreed = self._ledger, self._ledger.agreed
        if told.terms is not None and not agreed.may_be(told.terms, called, said):
            ledger.wrong(f"{told.terms} are its settings, it says, and were not then", told.leader)
        if told.ready_of and sum(told.ready_of) != told.ready:
            text = f"{told.ready_of} are ready by priority, it says, and {told.ready} in all"
            ledger.wrong(text, told.leader)
        items = agreed.most("items_max", told.bound, called, said)
        if items and told.bound > items and ledger.redriven is None:
            text = f"{told.bound} items are in it, and {items} may be"
            ledger.wrong(text, told.leader)
        size = agreed.most("bytes_max", told.bytes, called, said)
        if size and told.bytes > size:
            text = f"{told.bytes} bytes are in it, and {size} may be"
            ledger.wrong(text, told.leader)
        if told.lost and not ledger.excuses.may_lose:
            ledger.wrong(f"{told.lost} items are lost, it says", told.leader)

    def _tail(self, told: Numbers, called: Instant) -> None:
        for put in self._ledger.puts:
            if put.start is None or put.returned is None or put.returned >= called:
                continue
            for run in put.runs:
                last = self._ledger.place(run[-1]) or 0
                tail = told.tails[0 if put.keyed else self._ledger.rank(last)]
                if last >= tail:
                    text = f"the tail is {tail}, it says, and {last} was told before"
                    self._ledger.wrong(text, told.leader)

    def _inside(self, told: Numbers, called: Instant, said: Instant) -> None:
        ledger = self._ledger
        if ledger.excuses.lapses:
            return
        acked = sum(at < called for at in ledger.acked.values())
        if told.done < acked:
            text = f"{told.done} items are done, it says, and {acked} were before"
            ledger.wrong(text, told.leader)
        most = sum(len(one.values) for one in ledger.puts if one.called <= said) - acked
        if told.inside > most:
            ledger.wrong(f"{told.inside} items are in it, and at most {most} can be", told.leader)
        least = told.lost * -1 - len(ledger.attempted)
        for one in ledger.puts:
            if one.told and one.returned is not None and one.returned < called:
                least += len(one.values)
        if told.inside < least:
            ledger.wrong(f"{told.inside} items are in it, and {least} must be", told.leader)

    def _copies(self, told: Numbers, called: Instant, said: Instant) -> None:
        ledger = self._ledger
        quiet = self.quiet is not None and self.quiet <= called and not ledger.excuses.any_hurt
        if not quiet:
            return
        if told.short_of_copies == 0:
            self._whole = called
            return
        since = self._whole
        if since is None:
            return
        for one in ledger.puts:
            ended = FOR_EVER if one.returned is None else one.returned
            slow = ended - one.called > COPIED_WITHIN
            if one.called <= said and ended >= since and slow:
                return  # it may have fewer copies for a while
        text = f"{told.short_of_copies} items lack copies, and all had theirs before"
        ledger.wrong(text, told.leader)

    # --- at the end -------------------------------------------------------------------------------

    def judge(self, stays: list[Stay]) -> None:
        """Against what was there for certain (1, 2)."""
        segments = [Segment(one.since, one.until, index) for index, one in enumerate(stays)]
        empty = [one for one in self._empty if not self._left_out(one)]
        covered = find_covered(segments, empty)
        if covered is not None:
            get, cover = covered
            names = ", then ".join(stays[one.index].value for one in cover[:3])
            text = f"{get.process} got nothing from {get.called} to {get.until}, and there was"
            self._ledger.wrong(f"{text} {names}", get.process)
        for look, where in self._ranked:
            if self._unseen(look.called, look.said):
                continue
            waited = [one for one in stays if one.since < look.called and look.said < one.until]
            first = self._stands(look, where)
            before = [one.value for one in waited if self._stands(look, one.position) < first]
            if len(before) >= look.rank:
                names = ", ".join(before[: look.rank])
                text = f"{look.process} is shown what has rank {look.rank}, and not one of"
                self._ledger.wrong(f"{text} {names}", look.process)
        for look, positions in self._shown:
            if self._unseen(look.called, look.said):
                continue
            last = max([self._stands(look, one) for one in positions], default=None)
            for stay in stays:
                there = stay.since < look.called and look.said < stay.until
                behind = last is not None and self._stands(look, stay.position) >= last
                shown = stay.position < look.start or stay.position in positions
                if there and not (shown or behind):
                    text = f"{look.process} is shown {len(positions)} items, and not {stay.value}"
                    self._ledger.wrong(f"{text}, which was there all the while", look.process)

    def _stands(self, look: Shown, position: int) -> tuple[int, int]:
        """What is shown first has the least."""
        return self._ledger.rank(position) if look.by_key else 0, position

    def _unseen(self, called: Instant, until: Instant) -> bool:
        """Whether a get that was left may have had what waits, and gave it back."""
        return any(one.called <= until and called <= one.over for one in self._ledger.left_gets)

    def _left_out(self, get: Operation) -> bool:
        """Whether the queue may have been paused, or what was told then may be undone."""
        if self._ledger.excuses.cover(Instant(get.called), Instant(get.until)) is not None:
            return True
        if self._unseen(Instant(get.called), Instant(get.until)):
            return True
        return any(one.asked <= get.until and get.called <= one.until for one in self._pauses)
