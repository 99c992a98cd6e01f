"""A home's free elements in the order of their keys, and what a phase asks of them: seap.

1. What is free, and flushed by all who should keep it, is in the order, each lot's as one run; what
   comes while a phase runs waits until it is over (seap, rule 5; `seap/free.py`).
2. What a phase has taken is *chosen*, until it is leased, or nobody wants it. It is free on the
   shelf all the while: if the view ends, it is free in the next one.
3. Of what lies with others alone for now, the keys are known from the settling.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.keys import part as part_of
from snowmelt.core.keys import unpacked
from snowmelt.core.names import NodeId
from snowmelt.core.pieces import Edges
from snowmelt.protocols.priority.anchor import Census, first_of
from snowmelt.protocols.priority.batches import Share, Shares
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.keyed import keys_of
from snowmelt.protocols.priority.lots import in_order
from snowmelt.protocols.priority.messages import Ended, Stored, Word
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.positions import minus, without
from snowmelt.protocols.priority.settings import How, QueueSettings, State
from snowmelt.protocols.priority.shelf import Shelf, rows_at
from snowmelt.protocols.seap.free import Free
from snowmelt.protocols.seap.runs import RUN_MIN, RUNS_MAX, Run
from snowmelt.protocols.seap.steps import Answer, Assign, Begin, Chosen, Release, Step
from snowmelt.protocols.select.elements import Element

LEFT_MAX: Final = 4_096
NO_KEYS: Final[Mapping[int, int]] = {}


class Urgency:
    """One queue's, at one home, in one view."""

    def __init__(self, desk: Desk, settings: QueueSettings, shelf: Shelf, placing: Placing) -> None:
        self._desk = desk
        self._placing = placing
        self._settings = settings
        self._shelf = shelf
        self.free = Free(settings.queue)
        self._inside = IntervalSet()
        """What is in the order, or comes into it after the phase; and what `_left` has."""
        self._left: list[Interval] = []
        """What phases have taken since that was looked at."""
        self._chosen = IntervalSet()
        self._taken: tuple[Interval, ...] = ()
        """What the last phase took, while nobody has had any of it: chosen as well."""
        self._stop = 0
        """All that is known stands before this position."""
        self._keys: dict[int, int] = {}
        """Of what is not here (rule 3)."""
        self.phase = first_of(desk.epoch)
        """The phase that will take what comes in now, or a later one."""
        self.beginning = False
        """Whether not all homes may know that a phase has begun (seap, rule 5)."""
        self._held_up: list[tuple[NodeId, Stored | Ended]] = []
        """That something came in, until all know that a phase has begun."""
        self.hungry = False
        """Whether somebody waits for elements."""

    def feeds(self) -> bool:
        """Whether there is something for whoever waits; then it is told, once."""
        if self.hungry and self.free.rests and len(self.free):
            self.hungry = False
            return True
        return False

    # --- in and out -------------------------------------------------------------------------------

    def know(self, keys: Mapping[int, int]) -> None:
        """Of what is not here, or will not be (rule 3)."""
        self._keys.update(keys)

    def keep_keys(self, shares: Shares) -> None:
        """These are taken off the shelf, and are with others."""
        self._keys.update(keys_of(self._shelf, shares))

    def begin(self, shares: Iterable[Share]) -> None:
        single: list[Element] = []
        runs: list[Run] = []
        for share in shares:
            for interval in share.intervals:
                self._inside.add(interval)
                self._stop = max(self._stop, interval.stop)
                for one in self._sorted(interval):
                    few = len(one) < RUN_MIN or len(runs) == RUNS_MAX
                    single += map(one.element, range(len(one)) if few else ())
                    runs += () if few else (one,)
        self.free.begin(single)
        for one in runs:
            self.free.add(one)

    def add(self, shares: Shares) -> None:
        """What is free of these is so from now on, if that was not known; some may be gone."""
        for _, where, standing in rows_at(self._shelf, shares).standings(shares):
            if standing.state != State.FREE:
                continue
            known = self._known(where) if where.start < self._stop else ()
            self._stop = max(self._stop, where.stop)
            for new in without(where, known) if known else (where,):
                self._inside.add(new)
                if new.stop - new.start == 1:  # as what is put one by one
                    (one,) = self._elements((Share(0, (new,)),))
                    self.free.add(one)
                    continue
                for run in self._sorted(new):
                    self.free.add(run)

    def stored(self, shares: Shares) -> None:
        """Elements came, and are flushed by all: what is free of them is in."""
        self.add(rows_at(self._shelf, shares).present(shares))

    def tell(self, door: NodeId, answer: Stored | Ended) -> None:
        """That something came in: when all know that a phase has begun, if one begins (rule 5)."""
        if self.beginning:
            self._held_up.append((door, answer))
        else:
            self._desk.send(door, answer)

    def said(self, word: Word, refused: Shares) -> None:
        """What is said of elements, some of which may be chosen."""
        if word.how == How.UNWANTED:
            self.unchosen(word.shares)
        elif word.how == How.PURGE:
            self.leased(minus(word.shares, refused))

    def chose(self, shares: Shares) -> bool:
        """Whether this is just what a phase took, and nobody has had any of it."""
        return len(shares) == 1 and bool(self._taken) and shares[0].intervals == self._taken

    def leased(self, shares: Shares) -> None:
        """A get has had what was chosen for it, or can't have it."""
        if self.chose(shares):
            self._taken = ()
            return
        self._choose()
        for share in shares:
            self._chosen.remove_all(share.intervals)

    def reported(self, gone: Shares) -> Shares:
        """What of this the anchor hears: whole blocks, unless it counts what there is room for."""
        if self._settings.items_max:
            return gone
        if self._placing.everybody:  # there are no blocks
            return ()
        row = self._shelf.rows.row(0).gone
        intervals = [one for share in gone for one in share.intervals]
        blocks = dict.fromkeys(one for each in intervals for one in self._placing.whole(each))
        whole = [one for one in blocks if row.covers(one)]
        return (Share(0, tuple(whole)),) if whole else ()

    def census(self, stop: int, gone: Shares, order: int) -> Census:
        """What the anchor needs to know where it counts nothing: no more than blocks (rule 12)."""
        last = (Share(0, (Interval(stop - 1, stop),)),) if stop else ()
        whole = [self._placing.within(one) for share in gone for one in share.intervals]
        blocks = tuple([one for one in whole if one is not None])
        return Census((), last, (Share(0, blocks),) if blocks else (), (), order)

    def in_order(self, shares: Shares) -> Shares:
        """The same positions, the most urgent of those that are here first."""
        here = self._shelf.rows.present(shares)
        row = [Share(0, (Interval(one.id, one.id + 1),)) for one in sorted(self._elements(here))]
        return in_order([*row, *minus(shares, here)])

    def unchosen(self, shares: Shares) -> None:
        self._choose()
        for share in shares:
            for interval in share.intervals:
                for part in self._chosen.common(interval):
                    self._chosen.remove(part)
                    self.add((Share(0, (part,)),))

    # --- a phase ----------------------------------------------------------------------------------

    def answer(self, step: Step) -> tuple[Answer, Shares]:
        """What this home says to a step; and the positions of what it gives ranks to."""
        self.beginning = type(step) is Begin
        if not self.beginning:
            held_up, self._held_up = self._held_up, []
            for door, told in held_up:
                self._desk.send(door, told)
        answer, taken = self.free.answer(step)
        if type(step) is Begin:
            self.phase, self.hungry = step.phase + 1, False
        elif type(answer) is Chosen and type(step) is Assign and step.count is not None:
            self.phase = step.start + 1  # seap, rule 6
            self.hungry = step.hungry or (step.patient and answer.count < step.count)
        elif type(step) is Assign or type(step) is Release:
            self.hungry = step.hungry
        if not taken:
            return answer, ()
        self._choose()
        self._left += taken
        if len(self._left) > LEFT_MAX:
            self._forget()
        self._taken = tuple(taken)
        return answer, (Share(0, self._taken),)

    def _choose(self) -> None:
        """What the last phase took is chosen, as what those before took and nobody has had."""
        if self._taken:
            self._chosen.add_all(self._taken)
            self._taken = ()

    def _known(self, where: Interval) -> list[Interval]:
        """What of an interval is in the order, or chosen."""
        self._choose()
        self._forget()
        return [*self._inside.common(where), *self._chosen.common(where)]

    def _forget(self) -> None:
        """What phases have taken is not in the order."""
        left, self._left = self._left, []
        edges = Edges.joined([one.start for one in left], [one.stop for one in left])
        self._inside.remove_all(list(map(Interval, *edges)))

    def _sorted(self, interval: Interval) -> Iterator[Run]:
        """The elements of an interval, each lot's and all others by themselves."""
        turned = self._settings.largest_first
        here = rows_at(self._shelf, (Share(0, (interval,)),)).row(0).here.common(interval)
        for part, where in here:
            row = self._shelf.origins.lots[where.lot].keys
            keys = unpacked(part_of(row, part.start + where.base, part.stop + where.base))
            yield Run([~key for key in keys] if turned else keys, part.start)
        for gap in without(interval, [part for part, _ in here]):
            keys = tuple([self._keys[at] for at in gap])
            yield Run([~key for key in keys] if turned else keys, gap.start)

    def _elements(self, shares: Iterable[Share]) -> Iterator[Element]:
        turned = self._settings.largest_first
        for share in shares:
            here = keys_of(self._shelf, (share,))
            for interval in share.intervals:
                for position in interval:
                    key = here.get(position)
                    key = self._keys[position] if key is None else key
                    yield Element(~key if turned else key, position)
