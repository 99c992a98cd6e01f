"""What a priority queue's promise does not cover, from when to when, and because of what.

Each excuse rests on a sentence of the family's docstring, "What a failure costs", and is given to
one element at a time: everybody can tell who keeps a position in a view, which the family's adapter
says (`Layout`), so the world knows who had copies of it.

1. "Nothing that was acknowledged while one of its `replicas` copies is left." All who had flushed
   what was told of an element have lost their disks since, or can't read a record: it may be
   undone. A disk put back from an older copy has lost what came since; nobody can tell that, so
   it counts from that copy on.
2. "While as many nodes as have copies of an element are all away": there is a view since with none
   of those who had flushed what was told of it. Then it may be forgotten, and a put of it that is
   asked for again may be done anew, elsewhere (`Keepers.forgotten`).
3. "Elements wait for the node that has them": an element is not there to be got in a view with
   none of those who have it. Who has it changes: in a view in which somebody has it, all who should
   keep it then may be given copies, and the others of that view may erase theirs; or nobody has
   come to that yet. It is excused where any such course leads to nobody (`Keepers.absent`).
4. "An operation that nobody has answered may have happened or not": until its put is answered, any
   one of those who should keep an element may be the only one that has it. An acknowledgement may
   be known to one alone, who is away when the element is got again, and then back
   (`Keepers.come_out`).
5. The coordinator's disk is lost: the cluster can't go on (`membership`), and nothing is judged.
   An older copy of it makes views of numbers that there were: what was told since may be undone.

When the load is over the exam sees that those who should have an element do:
then there is one course from there on, as far as it may be lost; when it may be absent is judged
as if nobody had looked.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from snowmelt.core.instant import START, Instant
from snowmelt.core.names import NodeId
from snowmelt.sim.judge.values import FOR_EVER, Place

AWAY: Final = "all copies away"


class Layout(Protocol):
    """Who keeps what in which view, and how views go into numbers, as the family says."""

    def holders(self, members: tuple[NodeId, ...], place: Place) -> frozenset[NodeId]:
        """Who keeps an element in a view of these."""

    def epoch(self, number: int) -> int:
        """Of the view in which a position, an order or a token was given."""

    def first(self, epoch: int) -> int:
        """The first of these numbers in a view."""


class Seen(msgspec.Struct, frozen=True):
    """A view, and when it was first announced."""

    epoch: int
    at: Instant
    members: tuple[NodeId, ...]
    mark: int = 0
    """Tells it from another of the same number, with the same members (5)."""


class Hurt(msgspec.Struct, frozen=True):
    """One node lost what came to its disk after `since`."""

    node: NodeId
    since: Instant
    at: Instant
    reason: str
    whole: bool = False
    """Whether it was lost when all had their copies (the exam)."""


class Whole(msgspec.Struct, frozen=True):
    """Those who should have these elements then did, on their disks."""

    at: Instant
    view: Seen
    places: dict[Place, None]


class Told(msgspec.Struct, frozen=True):
    """Something that was told of an element, in answer to a call."""

    place: Place
    called: Instant
    returned: Instant


class Excuses:
    """For all queues of a life."""

    def __init__(self, nodes: Sequence[NodeId]) -> None:
        self.nodes = tuple(nodes)
        self.views: list[Seen] = []
        self.hurts: list[Hurt] = []
        self.over: Instant | None = None
        self.names: list[Hurt] = []
        """Views since then may have had the same numbers as others (5)."""
        self._stays: dict[NodeId, list[tuple[Instant, Seen]]] = {}
        """When each node came into which view."""

    # --- what happens -----------------------------------------------------------------------------

    def viewed(
        self, at: Instant, node: NodeId, epoch: int, members: tuple[NodeId, ...], mark: int = 0
    ) -> None:
        new = Seen(epoch, at, members, mark)
        known = [one for one in self.views if msgspec.structs.replace(one, at=at) == new]
        view = known[0] if known else new
        if not known:
            self.views.append(view)
        self._stays.setdefault(node, []).append((at, view))

    def hurt(
        self, node: NodeId, at: Instant, reason: str, since: Instant = START, *, whole: bool = False
    ) -> None:
        """A node lost what came to its disk after this moment."""
        self.hurts.append(Hurt(node, since, at, reason, whole))

    def gone(self, node: NodeId) -> None:
        """It never comes back."""
        self.nodes = tuple([one for one in self.nodes if one != node])

    def renumbered(self, at: Instant, taken: Instant, node: NodeId) -> None:
        """The coordinator has an older copy of its disk (5)."""
        self.names.append(Hurt(node, taken, at, "older disk of the coordinator"))

    # --- what is known ----------------------------------------------------------------------------

    def undone(self, called: Instant, returned: Instant) -> str:
        """Why whatever was told then may be undone; nothing if it may not (5)."""
        if self.over is not None:
            return "coordinator's disk lost"
        hit = [one for one in self.names if one.since <= returned and called <= one.at]
        return hit[0].reason if hit else ""

    def later(self, view: Seen, begin: Seen) -> bool:
        """Whether a view came after another: by number, unless numbers may have come again."""
        if view is begin or view.epoch > begin.epoch:
            return view is not begin
        return any(begin.at <= one.at <= view.at for one in self.names)

    def had_left(self, node: NodeId, view: Seen, at: Instant) -> bool:
        """Whether a node did nothing in a view any more: it was in a later one, or not of it."""
        later = [one for one in self.views if self.later(one, view) and one.at <= at]
        stays = [(since, one) for since, one in self._stays.get(node, []) if since <= at]
        return any(node not in one.members for one in later) or any(
            self.later(one, view) for _, one in stays
        )

    def whole(self, at: Instant) -> bool:
        """Whether the last view there was then has all nodes: nothing waits for one away."""
        last = self.last(at)
        return last is not None and set(last.members) == set(self.nodes)

    def last(self, at: Instant) -> Seen | None:
        since = max([one.at for one in self.names if one.at <= at], default=START)
        views = [view for view in self.views if since <= view.at <= at]
        last = [one for one in views if not any(self.later(other, one) for other in views)]
        return last[-1] if last else None


class Being:
    """Whether a queue is there: each node has it on its disk, so that it is while one is left."""

    def __init__(self, excuses: Excuses) -> None:
        self._excuses = excuses
        self._made: Instant | None = None

    @property
    def known(self) -> bool:
        """Whether anybody was told that it is there."""
        return self._made is not None

    def seen(self, at: Instant) -> None:
        self._made = self._made or at

    def denied(self, called: Instant, at: Instant) -> bool:
        """It is not there, it was said: whether that can't be (1 and 5)."""
        made = self._made
        return made is not None and called > made and not self.lost(at)

    def lost(self, at: Instant) -> bool:
        """Whether all who had it may have lost it, or it was undone."""
        made, excuses = self._made, self._excuses
        if made is None:
            return False
        hurt = {one.node for one in excuses.hurts if one.at <= at}
        views = [view for view in excuses.views if view.at <= made]
        lost = any(hurt.issuperset(view.members) for view in views)
        return lost or bool(excuses.undone(made, at))


class Keepers:
    """Who had copies of what of one queue, and what of it may be lost, forgotten, or not there."""

    def __init__(self, excuses: Excuses, layout: Layout) -> None:
        self._excuses = excuses
        self._layout = layout
        self._known: dict[Told, tuple[list[Seen], bool]] = {}
        self._wholes: list[Whole] = []

    # --- the last exam ----------------------------------------------------------------------------

    def holders_at(self, at: Instant, place: Place) -> frozenset[NodeId]:
        view = self._excuses.last(at)
        return frozenset() if view is None else self._holders(view, place)

    def may_lack(self, put: Told, at: Instant) -> bool:
        """Whether those who should have an element need not: it may be forgotten, or lost."""
        may = bool(self.forgotten(put, at) or self.lost(put))
        self._known.clear()  # there is more to come
        return may

    def settle(self, at: Instant, places: dict[Place, None]) -> None:
        view = self._excuses.last(at)
        if view is not None:
            self._wholes.append(Whole(at, view, places))

    # --- what may be ------------------------------------------------------------------------------

    def forgotten(self, told: Told, until: Instant = FOR_EVER) -> str:
        """Why what was told may be undone (1), or forgotten (2); nothing if it may not."""
        excuses = self._excuses
        reason = excuses.undone(told.called, told.returned)
        for view in [] if reason else self._views(told):
            knew = self._holders(view, told.place)
            hurts = [one for one in excuses.hurts if _hits(one, told) and one.at <= until]
            left = knew - {one.node for one in hurts}
            if not left:
                return [one.reason for one in hurts if one.node in knew][-1]
            later = [one for one in excuses.views if excuses.later(one, view) and one.at <= until]
            if any(not left & set(one.members) for one in later):
                reason = AWAY
        return reason

    def lost(self, put: Told) -> str:
        """Why an element may be nowhere any more (1)."""
        reason = self._excuses.undone(put.called, put.returned)
        if reason or not self._courses(put)[1]:
            return reason
        return [one.reason for one in self._excuses.hurts if _hits(one, put)][-1]

    def absent(self, put: Told) -> set[int]:
        """The numbers of the views in which it may not be there (3 and 4)."""
        return {view.epoch for view in self._courses(put)[0]}

    def come_out(self, word: Told, epoch: int, until: Instant) -> bool:
        """Whether who may know a word that nobody answered is back since a view without him (4)."""
        excuses, given = self._excuses, self._layout.epoch(word.place.position)
        there = {node for one in excuses.views if one.epoch == epoch for node in one.members}
        back = [one for one in excuses.views if one.epoch > epoch and one.at <= until]
        came = {node for one in back for node in one.members} - there
        return any(
            node in came and not excuses.had_left(node, view, word.called)
            for view in excuses.views
            if given <= view.epoch < epoch
            for node in self._holders(view, word.place)
        )

    # --- within -----------------------------------------------------------------------------------

    def _courses(self, put: Told) -> tuple[list[Seen], bool]:
        """In which views it may be with nobody; and whether it may be lost."""
        known = self._known.get(put)
        if known is not None:
            return known
        absent: list[Seen] = []
        lost = False
        given = self._layout.epoch(put.place.position)
        for view in [one for one in self._excuses.views if one.epoch == given]:
            alone = [frozenset({node}) for node in self._holders(view, put.place)]
            absent += self._walk(put, view, alone, put.returned)[0]  # not answered yet (4)
        for view in self._views(put):
            had = [self._holders(view, put.place)]
            away, gone = self._walk(put, view, had, FOR_EVER)
            if gone and self._wholes:
                _, gone = self._walk(put, view, had, FOR_EVER, self._wholes)
            absent, lost = [*absent, *away], lost or gone
        self._known[put] = absent, lost
        return absent, lost

    def _walk(
        self,
        put: Told,
        begin: Seen,
        having: Iterable[frozenset[NodeId]],
        until: Instant,
        wholes: Sequence[Whole] = (),
    ) -> tuple[list[Seen], bool]:
        """From one view on, with who may have it: views in which nobody does; whether it is lost.

        Of two courses of which the one has it wherever the other has, only the other counts.
        """
        absent: list[Seen] = []
        courses = set(having)
        for event in self._events(put, begin, until, wholes):
            if isinstance(event, Hurt):
                courses = {course - {event.node} for course in courses}
                continue
            if isinstance(event, Whole):
                courses = {self._holders(event.view, put.place)}
                continue
            members = frozenset(event.members)
            should = self._holders(event, put.place)
            if any(not course & members for course in courses):
                absent.append(event)
            courses |= {(course - members) | should for course in courses if course & members}
            courses = {one for one in courses if not any(other < one for other in courses)}
        return absent, frozenset() in courses

    def _events(
        self, put: Told, begin: Seen, until: Instant, wholes: Sequence[Whole]
    ) -> Iterator[Seen | Hurt | Whole]:
        excuses = self._excuses
        happened: list[tuple[Instant, int, Seen | Hurt | Whole]] = [
            (one.at, at, one)
            for at, one in enumerate(excuses.hurts)
            if _hits(one, put) and one.at <= until
        ]
        happened += [
            (one.at, one.epoch, one)
            for one in excuses.views
            if excuses.later(one, begin) and one.at <= until
        ]
        happened += [  # whose copies are lost at that moment had them
            (one.at, -1, one) for one in wholes if put.place in one.places and one.at <= until
        ]
        return (event for _, _, event in sorted(happened, key=lambda one: one[:2]))

    def _views(self, told: Told) -> list[Seen]:
        """In which views it may have been told: those who keep it were in it still."""
        given = self._layout.epoch(told.place.position)
        return [
            view
            for view in self._excuses.views
            if view.at <= told.returned
            and view.epoch >= given
            and not any(
                self._excuses.had_left(node, view, told.called)
                for node in self._holders(view, told.place)
            )
        ]

    def _holders(self, view: Seen, place: Place) -> frozenset[NodeId]:
        return self._layout.holders(view.members, place)


def _hits(hurt: Hurt, told: Told) -> bool:
    """Whether it undoes what was told then, at that node."""
    return hurt.since <= told.returned and told.called <= hurt.at
