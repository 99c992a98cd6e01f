"""Where queues are at home, told to who asks, and how queues are made; at whoever decides on homes.

A queue of several partitions is made of as many queues (`partition_names.py`):

1. All of them but the first are made, and then the first. So where that is, all of them are, and
   its home is told to who asks for the queue as a whole.
2. Whoever opens the queue with its settings has those made that are missing. So what was
   interrupted is gone on with.
3. One name is a queue of so many partitions: with another number it is refused, also while it is
   being made.
4. Their leaders are neighbours in the ring of nodes, so that each node leads as many as another.
5. All are counted where there is a limit for queues, and names are told once. Who pays for those
   that had them made may have four times what is left to others; what is deleted is given back.
"""

from zlib import crc32

from msgspec.structs import replace

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api.partition_names import (
    part_name,
    part_names,
    part_of,
    whole_of,
)
from snowmelt.protocols.queue.api.settings import (
    PARTITIONS_MAX,
    QueueSettings,
    differences,
    otherwise,
)
from snowmelt.protocols.queue.controller.copy_inventory import CopyInventory
from snowmelt.protocols.queue.controller.deleting import AGAIN_AFTER, Deletions
from snowmelt.protocols.queue.controller.founding import Foundations
from snowmelt.protocols.queue.controller.growing import Quitting
from snowmelt.protocols.queue.controller.homes import Homes
from snowmelt.protocols.queue.messages import home_words
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.streams import Presence


class QueueCreation:
    """The controller's part in making queues, once for each name."""

    def __init__(
        self, outbox: Outbox, kept: Homes, quitting: Quitting, deletions: Deletions
    ) -> None:
        self._outbox = outbox
        self._kept = kept
        self._quitting = quitting
        self._deletions = deletions
        self.unsure = Instant(0)
        """Until then another may lead, and not know of this one (controller, rule 9)."""
        self.forget(CopyInventory(outbox))

    def forget(self, inventory: CopyInventory) -> None:
        """Whoever decides begins, or has ended."""
        self._inventory = inventory
        self._foundations = Foundations(self._outbox)
        self._wholes: dict[str, tuple[NodeId, home_words.LocateQueue]] = {}
        """Queues of which not all partitions are there yet, and who asked for them last."""

    # --- questions --------------------------------------------------------------------------------

    def where(self, source: NodeId, message: home_words.LocateQueue) -> None:
        """Where a queue is at home; it is made if that is asked for."""
        presence, settings = self._kept.presence, message.settings
        there = message.queue in self._kept.known
        if presence is None or (not there and self._foundations.waits(source, message)):
            return  # all is looked at when its turn comes: thousands may wait
        unread = self._kept.unread(message.queue)
        if unread and (settings is not None or self._known(message.queue, some=False) is None):
            why = self._kept.why(unread)  # controller, rule 16
            self._nowhere(source, message.queue, "StoreDamaged", why)
            return
        gone = self._deletions.nowhere(message.queue)
        if settings is not None and part_of(message.queue) is None and gone.error == "QueueMoved":
            self._outbox.send(source, gone)  # deleting, rule 10
            return
        if settings is not None and settings.partitions > 1 and part_of(message.queue) is None:
            self._whole(source, message, settings, presence)
            return
        home = self._known(message.queue, some=settings is not None)
        name = message.queue if home is None else home.queue
        if name in self._kept.busy or (home is None and not self._inventory.complete):
            return  # it is asked again
        if home is None and message.queue in self._kept.floors:
            term = self._kept.floors[message.queue]
            text = (
                f"queue {message.queue!r} is kept under term {term}, but the coordinator's disk "
                "does not know it, and no copy here says where it was at home: start the nodes "
                "that keep it, or put the coordinator's latest disk back"
            )
            self._nowhere(source, message.queue, "Unavailable", text)
        elif home is None and settings is None:
            self._outbox.send(source, gone)
        elif home is None and not self._deletions.erasing(message.queue):
            assert settings is not None
            self._found(source, message, settings, presence)
        elif home is None:
            pass  # it is asked again
        elif settings is not None and differences(home.asked_for, settings):
            why = otherwise(message.queue, home.asked_for, settings)
            self._nowhere(source, message.queue, "QueueExists", why)
        else:
            self._outbox.send(source, home)

    def _known(self, queue: str, *, some: bool) -> home_words.Assignment | None:
        """The home of a queue, or of its first partition (rule 1), or of `some` (rule 3)."""
        known = self._kept.known
        home = known.get(queue)
        if home is not None or not self._kept.of_whole.held(queue):
            return home  # and no other question costs the names of all partitions
        names = part_names(queue, PARTITIONS_MAX if some else 1)
        return next((known[name] for name in names if name in known), None)

    def roll(self, source: NodeId, message: home_words.Roll) -> None:
        """Which queues there are; each once (rule 5)."""
        if self._kept.presence is None:
            return
        found = {whole_of(name): home.settings for name, home in self._kept.known.items()}
        unread = {whole_of(name): part_of(name) for name in self._kept.unreadable}
        names = tuple(sorted(found | unread))
        ranked = tuple([one for one in names if one in found and found[one].priorities != 1])
        parts = {one for one in found if found[one].partitions != 1}
        parts |= {one for one, part in unread.items() if part is not None}
        parted = tuple([one for one in names if one in parts])
        self._outbox.send(source, home_words.Rolled(message.number, names, ranked, parted))

    # --- making -----------------------------------------------------------------------------------

    def _found(
        self,
        source: NodeId,
        where: home_words.LocateQueue,
        settings: QueueSettings,
        presence: Presence,
    ) -> None:
        presence = self._quitting.staying(presence, 1)
        queue, here = where.queue, len(presence.keepers)
        try:
            settings = settings.made_on(here)
        except BadOption as error:
            self._nowhere(source, queue, "BadOption", str(error))
            return
        if self._outbox.now < self.unsure:  # controller, rule 9
            return
        if self._are_too_many(source, where, 1):
            return
        if not self._foundations.begins(source, where):  # controller, rule 10
            self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))
            return
        if self._is_begun(queue):
            self._foundations.ended(queue)
            return  # it is asked again
        master = drawn(queue, presence)
        mirrors = presence.after(master, settings.replicas - 1)
        term, run = self._kept.next_term(queue), presence.run_of(master)
        self._outbox.note(f"{queue} is made on {settings.replicas} of {here} nodes")
        home = home_words.Assignment(
            queue, term, master, mirrors, settings, run, since=term, maker=where.payer
        )
        self._kept.keep(home, source)

    def _is_begun(self, queue: str) -> bool:
        """Whether this name is just being made with another number of partitions (rule 3).

        Or its first partition is being deleted (deleting, rule 11).
        """
        names = [whole_of(queue), part_name(whole_of(queue), 0)]
        names = part_names(queue, PARTITIONS_MAX) if part_of(queue) is None else names
        return any(name in self._kept.busy for name in names)

    def _whole(
        self,
        source: NodeId,
        where: home_words.LocateQueue,
        settings: QueueSettings,
        presence: Presence,
    ) -> None:
        """Has the partitions made that are missing (rules 1 to 3)."""
        kept, queue = self._kept, where.queue
        if queue in kept.busy:
            return  # it is asked again
        there = self._known(queue, some=True)
        if there is not None and differences(there.asked_for, settings):
            why = otherwise(queue, there.asked_for, settings)
            self._nowhere(source, queue, "QueueExists", why)
            return
        first, *others = part_names(queue, settings.partitions)
        missing = [name for name in (first, *others) if name not in kept.known]
        if not missing:
            if first not in kept.asleep:
                self._wholes.pop(queue, None)
            self._outbox.send(source, kept.known[first])
            return
        if not self._inventory.complete:
            return  # it is asked again
        if self._are_too_many(source, where, len(missing)):
            return
        if len(self._wholes) > self._outbox.limits.questions:
            self._wholes.clear()  # they are asked for again
        self._wholes[queue] = source, where
        made = settings if there is None else there.asked_for
        try:
            made.made_on(len(self._quitting.staying(presence, 1).keepers))
        except BadOption as error:  # each partition would be refused, and the queue never answered
            self._nowhere(source, queue, "BadOption", str(error))
            return
        if missing == [first] and any(name in kept.asleep for name in others):
            return
        for name in missing[1:] if missing[0] == first and len(missing) > 1 else missing:
            if name not in kept.busy:
                self.where(source, replace(where, queue=name, settings=made))

    def made(self, queue: str) -> None:
        """A queue serves: others are made, and what is missing of its whole."""
        self._foundations.ended(queue)
        self.next()
        waits = self._wholes.get(whole_of(queue))
        if waits is not None and part_of(queue) is not None:
            self.where(*waits)

    def next(self) -> None:
        """Who waited is asked after as if it were asked now; a few at a time (controller, 10)."""
        for _ in range(self._outbox.limits.told):
            wish = self._foundations.next()
            if wish is None:
                break
            self.where(wish.source, wish.where)
        if self._foundations.waiting:
            self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))

    def _nowhere(self, source: NodeId, queue: str, error: str, text: str) -> None:
        self._outbox.send(source, home_words.Nowhere(queue, error, text))

    def _are_too_many(self, source: NodeId, where: home_words.LocateQueue, more: int) -> bool:
        """Whether so many more are too many for all, or for who pays (rule 5): it is told why."""
        most, there, payer = self._outbox.limits.queues, len(self._kept.known), where.payer
        if there + more > most:
            text = f"there are {there} queues, and no cluster keeps more than {most}"
        elif payer and not self._kept.made.has_room(payer, more, most):
            own = self._kept.made.held(payer)
            text = f"{payer} had {own} of {there} queues made, of {most}, and leaves room to others"
        else:
            return False
        text = f"{text}: {more} more are asked for; delete some (snowmelt delete)"
        self._nowhere(source, where.queue, "BadOption", text)
        return True


def drawn(queue: str, presence: Presence) -> str:
    """By rank of a checksum: queues spread, and everybody finds the same; partitions by rule 4."""
    whole, part = whole_of(queue), part_of(queue)
    first = max(presence.keepers, key=lambda keeper: crc32(f"{whole}/{keeper}".encode()))
    ring = (first, *presence.after(first, len(presence.keepers)))
    return ring[(part or 0) % len(ring)]
