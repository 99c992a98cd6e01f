"""What others keep that this disk does not know: it is an older copy (`controller.py`, rule 5)."""

import msgspec

from snowmelt.protocols.queue.controller.homes import Homes
from snowmelt.protocols.queue.controller.next_homes import mirrored_by
from snowmelt.protocols.queue.messages import home_words
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.outbox import Outbox


class LaterTerms:
    """Of all queues, as those tell who have copies, or had some."""

    def __init__(self, outbox: Outbox, kept: Homes) -> None:
        self._outbox = outbox
        self._kept = kept
        self._copies: dict[str, Assignment | None] = {}
        """Of queues that others keep under later terms: the home of the latest copy."""
        self._left: dict[str, Assignment] = {}
        """The latest home that somebody was left out of, if it is later than what is known."""
        self._went_on: dict[str, None] = {}
        """Queues that were served by what is decided here."""

    def forget(self) -> None:
        """The controller is another node now: what was heard here is dropped."""
        for known in (self._copies, self._left, self._went_on):
            known.clear()

    def learn(self, held: home_words.CopyReport) -> None:
        """Somebody has a copy, or had one."""
        queue, kept = held.queue, self._kept
        home = kept.known.get(queue) or kept.graves.get(queue)
        known = 0 if home is None else home.term
        met = max(held.fence, 0 if held.home is None else held.home.term)
        if met >= home_words.TERM_MAX - 1 or self._outbox.alarm("a node", queue, met, known):
            return
        if held.left and queue not in kept.unreadable:
            self._learn_left(held.home, home)
        if not known < met or queue in kept.busy:
            return
        kept.floors[queue] = max(met, kept.floors.get(queue, 0))
        if queue in kept.unreadable:  # rule 16: whoever is away may know of a later home
            return
        best, found = self._copies.get(queue), held.home
        if held.deleted:
            found = home_words.buried(queue, held.fence)
        if found is None or held.left or (best is not None and best.term >= found.term):
            self._copies.setdefault(queue, None)
        else:
            self._copies[queue] = found

    def _learn_left(self, last: Assignment | None, known: Assignment | None) -> None:
        if last is None or not last.active:
            return
        if known is not None and known.settled >= last.term:
            return
        best = self._left.get(last.queue)
        if best is None or best.term < last.term:
            self._left[last.queue] = last

    def take_up(self) -> None:
        """What others keep under later terms goes on from there."""
        found, self._copies = self._copies, {}
        presence, kept = self._kept.presence, self._kept
        assert presence is not None, "it was looked for"
        for queue, last in list(self._left.items()):
            copy = found.get(queue)
            if copy is not None and copy.term > last.term:
                del self._left[queue]
            self._goes_on(queue)
        for queue, best in found.items():
            home = kept.known.get(queue)
            if best is None or queue in kept.busy:
                continue
            if home is not None and (home.term >= best.term or kept.decides):
                if home.term < best.term:
                    text = f"a copy of term {best.term} is left out: {queue} went on without it"
                    self._outbox.note(text)
                continue
            self._note(best)
            if best.end is not None:  # rule 15
                kept.keep(best)
                continue
            last = msgspec.structs.replace(best, active=True)
            master = next((one for one in last.keepers if one in presence.keepers), "")
            if master:
                run = presence.run_of(master)
                kept.renew(last, master, mirrored_by(master, last, presence), run)

    def decided(self, home: Assignment) -> bool:
        """Whether a queue is to go on from a later home than the one that is decided on.

        Not if it has gone on without: that is noted.
        """
        if not home.active:
            return self._goes_on(home.queue)
        self._went_on[home.queue] = None
        last = self._left.pop(home.queue, home)
        if home.term < last.term:
            text = f"a home of term {last.term} is left out: {home.queue} went on without it"
            self._outbox.note(text)
        return False

    def _goes_on(self, queue: str) -> bool:
        """Whether it goes on from a home that was active, and of which this disk knew nothing."""
        kept, last = self._kept, self._left.get(queue)
        presence, home = kept.presence, kept.known.get(queue) or kept.graves.get(queue)
        if last is None or presence is None or queue in kept.busy:
            return False
        del self._left[queue]
        old = home is None or home.settled < last.term
        if queue in self._went_on or not old:
            return False
        self._note(last)
        kept.floors[queue] = max(kept.floors.get(queue, 0), 0 if home is None else home.term)
        master = next((one for one in last.keepers if one in presence.keepers), last.master)
        run = presence.run_of(master) if master in presence.keepers else ""
        kept.renew(last, master, mirrored_by(master, last, presence), run)
        return True

    def _note(self, last: Assignment) -> None:
        text = f"{last.queue}: term {last.term} is known to others, and not to this disk"
        self._outbox.note(text)
