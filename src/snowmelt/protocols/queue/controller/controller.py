"""Where each queue is at home; kept by the coordinator of the cluster, on its disk.

A *home* is a term, a master, which leads, and mirrors, which follow: all have copies. Rules:

1. Homes of a queue have growing terms; each is on the disk before anybody hears of it. So a term
   has one master, whatever crashes.
2. A new term is made when the master begins anew (it asks, by `RequestTerm`), when a view has no
   place for one of the home's keepers and another can take its place. It is made when a mirror does
   not answer its master although both are here (`Unreached`): then another takes its place, if
   there is one. Who did not answer itself before is left out for a while. But where the master can
   do nothing without its mirror, who was left out longest ago has its turn again. And when a new
   master does not hear a keeper of the last term that is here, and needs its answer, the next in
   the ring is to try, each once in a while. A master whose disk is full names one who has room.
3. A new home is not *active*: it names the keepers of the last active one, of whose copies the
   master must take the newest. When it has, it says `Activate`, and serves when it has heard that
   this too is on the disk.
4. A queue whose keepers are all away has nobody to go on with it; it waits for them.
5. This disk may be an older copy of itself. So a coordinator that begins decides on nothing before
   all who are here have told what they keep (`copy_inventory.py`), and makes no queue before all
   have. A queue that others keep under a later term than is known here is theirs: its next home is
   above that term, and its copy comes from those who keep it. Who is heard of only later, when the
   queue has gone on without it, changes nothing; that is noted. Of who was left out of a home, and
   erased its copy (`erasing.py`, rule 5), the coordinator learns of that home: it was active. Where
   its keepers are away, the queue waits for them.
6. A term that anybody has met is never given again: the next is above it. A master may even be on
   its way to such a term, which it heard of before the disk was put back: its word, whatever it
   asks for, has the queue go on above that term.
7. Where etcd decides, homes are there and not on a disk (`membership.records`), and whoever leads
   decides on them, from `Leads` to `LeadsNoMore`. It begins with those that etcd has, and knows
   nothing of an earlier time in which it led. What it had asked to be kept when it leads no more,
   it tells nobody; who leads then reads what came of it.
8. Where the coordinator's disk was lost, homes are found again in the folders of those who keep
   copies (`rescuing.py`).
9. While a view is unsure (rule 27 of membership) another may lead that does not know it. What it
   decides comes to nothing; but it may say of a queue that there is none. So none is made before.
10. Of the queues that are to be made a few are made at a time, and payers take turns
    (`founding.py`). Who asks where one is, or has it made, is answered by `creation.py`.
11. Who is to leave in order, or to be empty (`growing.py`), is as if it were away, but that others
    bring over what it has; it may go when no home names it. A queue that fewer nodes would keep
    than must keeps it. So a home may have fewer mirrors than wanted; it gets more when there are
    more nodes.
12. Which copies count of those that a home names its master says (`queue/in_sync.py`), and it is on
    the disk before the master counts so. A later term goes on from these alone; only when all their
    disks are gone, from the others.
13. A queue has other settings from a new term on, which its master asks for (`altering.py`). Of
    how many of the last term's copies the newest is sought was settled with the old ones. Who is
    new among those named does not count until it has a copy, where fewer than most may count.
14. A queue of which nobody said how many copies there are has more as nodes join (`growing.py`).
15. A queue may be deleted (`deleting.py`). What others keep under later terms than this disk knows
    may be that it was.
16. Where it can't be read where a queue is at home, nothing is decided on that queue, and none of
    its name is made, until its record is put back or it is given up in so many words. Its copies
    say nothing, since whoever is away may know of a later home. A leader that it has goes on.
    All others go on, and so do this node and its cluster.
"""

from itertools import islice
from typing import Final

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Started
from snowmelt.protocols.membership import Leads, LeadsNoMore, RecordsKept
from snowmelt.protocols.queue.controller.copy_inventory import CopyInventory
from snowmelt.protocols.queue.controller.creation import QueueCreation, drawn
from snowmelt.protocols.queue.controller.deleting import Deletions
from snowmelt.protocols.queue.controller.growing import Growing, Quitting
from snowmelt.protocols.queue.controller.homes import Homes
from snowmelt.protocols.queue.controller.later_terms import LaterTerms
from snowmelt.protocols.queue.controller.next_homes import (
    as_said,
    mirrored_by,
    stands_still,
    towards,
)
from snowmelt.protocols.queue.messages import home_words
from snowmelt.protocols.queue.messages.words import AssignmentStored
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.streams import Presence, gone_for_ever, node_of

AGAIN_AFTER: Final[Duration] = milliseconds(500)
WOKEN: Final = 100
WAKE_EVERY: Final = milliseconds(50)
"""So many masters of queues are told at once that they lead, and the next so soon."""
SHUNNED_FOR: Final[Duration] = seconds(120)
"""So long who did not answer a queue's master is not made its mirror again, in the same run."""


class Controller:
    """The homes of all queues; it answers only on the coordinator."""

    def __init__(self, outbox: Outbox, *, on_disk: bool = True) -> None:
        self._outbox = outbox
        self._kept = Homes(outbox, self._decided, on_disk=on_disk)
        self.reads_old = Instant(-1)
        """Until then this process reads what came while it slept: of that complaints count for
        nothing. Who does not answer still is complained of again."""
        self._inventory = CopyInventory(outbox)
        self._quitting = Quitting(outbox)
        self._growing = Growing(outbox, self._kept, self._quitting)
        self.deletions = Deletions(outbox, self._kept)
        self.making = QueueCreation(outbox, self._kept, self._quitting, self.deletions)
        self.making.forget(self._inventory)
        self._later = LaterTerms(outbox, self._kept)
        self._shunned: dict[tuple[str, str], Instant] = {}
        """By queue and run: mirrors that did not answer, and until when they are left out."""
        self._deaf: dict[tuple[str, str], Instant] = {}
        """The same of masters that did not hear whom they had to."""
        self._unled: dict[str, None] = {}
        """Queues whose masters began anew before this coordinator could decide."""

    def begin(self, started: Started) -> None:
        self._kept.begin(started)

    def told(self, _: NodeId, fact: Leads | LeadsNoMore | RecordsKept | AssignmentStored) -> None:
        """What it asked is kept; or, of etcd, it decides from now on, or no more (rule 7)."""
        if isinstance(fact, RecordsKept | AssignmentStored):
            self._kept.kept(fact)
            return
        self._inventory = CopyInventory(self._outbox)
        self.making.forget(self._inventory)
        self._kept.forget()
        self.deletions.forget()
        self._later.forget()
        for met in (self._shunned, self._deaf, self._unled):
            met.clear()
        if isinstance(fact, Leads):
            self._kept.lead(fact)
            self.viewed()

    # --- terms ------------------------------------------------------------------------------------

    def claim(self, _: NodeId, message: home_words.RequestTerm) -> None:
        """A master began anew (rule 2), or somebody met a later term (rule 6)."""
        home, presence = self._kept.known.get(message.queue), self._kept.presence
        if presence is None or home is None or not self._kept.may_change(home):
            return
        own = message.run.startswith(home.master + "/")
        if self._is_outgrown(home, message.term, presence):
            return
        if own and message.term == home.term:
            self._kept.renew(home, home.master, home.mirrors, message.run)
        elif message.term <= home.term:  # it was given one already, or is not the master any more
            self._tell(home, node_of(message.run))

    def _is_outgrown(self, home: home_words.Assignment, term: int, presence: Presence) -> bool:
        """Whether somebody met a later term than this disk knows (rule 6); a later one is made."""
        if not home.term < term < home_words.TERM_MAX - 1:
            return False
        if self._outbox.alarm("a node", home.queue, term, home.term):
            return False
        self._kept.floors[home.queue] = max(term, self._kept.floors.get(home.queue, 0))
        if home.master in presence.keepers:
            self._kept.renew(home, home.master, home.mirrors, presence.run_of(home.master))
        return True

    def unreached(self, _: NodeId, message: home_words.Unreached | home_words.Aside) -> None:
        """A keeper does not answer its master, or is to lead in its place (rule 2)."""
        home, presence = self._kept.known.get(message.queue), self._kept.presence
        if presence is None or home is None or not self._kept.may_change(home):
            return
        if self._is_outgrown(home, message.term, presence) or self._outbox.now <= self.reads_old:
            return
        if (home.term, home.run) != (message.term, message.run):
            return
        now, keeper = self._outbox.now, message.keeper
        if isinstance(message, home_words.Aside):
            if keeper in (home.before or home.counted) and keeper in presence.keepers:
                mirrors = mirrored_by(keeper, home, presence)
                self._kept.renew(home, keeper, mirrors, presence.run_of(keeper))
            return
        self._shunned = {one: end for one, end in self._shunned.items() if end > now}
        self._deaf = {one: end for one, end in self._deaf.items() if end > now}
        here = presence.view.member(node_of(keeper)) is not None
        if keeper in home.mirrors and self._replaced(home, keeper, presence):
            return
        if here and not home.active and keeper in home.before:
            self._pass_on(home, presence)

    def _replaced(self, home: home_words.Assignment, keeper: str, presence: Presence) -> bool:
        """Whether another takes the place of a mirror that its master does not hear."""
        if keeper not in presence.keepers:
            return False  # the view that has no place for it sees to that
        end = later(self._outbox.now, SHUNNED_FOR)
        self._shunned[home.queue, presence.run_of(keeper)] = end
        old = home.keepers
        ring = self._quitting.staying(presence, 1).after(home.master, len(presence.keepers))
        ends = {
            one: self._shunned.get((home.queue, presence.run_of(one)), Instant(0))
            for one in ring
            if one not in old
        }
        best = min(ends, key=ends.__getitem__, default=None)
        if best is None or (ends[best] and not stands_still(home)):
            return False
        mirrors = tuple(best if one == keeper else one for one in home.mirrors)
        self._kept.renew(home, home.master, mirrors, home.run)
        return True

    def _pass_on(self, home: home_words.Assignment, presence: Presence) -> None:
        """The next in the ring is to take over: it may hear whom this one does not."""
        self._deaf[home.queue, home.run] = later(self._outbox.now, SHUNNED_FOR)
        for master in presence.after(home.master, len(presence.keepers)):
            run = presence.run_of(master)
            if (home.queue, run) not in self._deaf:
                mirrors = mirrored_by(master, home, presence)
                self._kept.renew(home, master, mirrors, run)
                return

    def said(
        self,
        source: NodeId,
        message: home_words.Activate | home_words.Among | home_words.ChangeSettings,
    ) -> None:
        """A master says that its first step is safe, or what is to be otherwise (3, 12, 13)."""
        home, presence = self._kept.known.get(message.queue), self._kept.presence
        if presence is None or home is None:
            return
        decides = self._kept.may_change(home)
        if decides and self._is_outgrown(home, message.term, presence):
            return
        if (home.term, home.run) != (message.term, message.run):
            return
        if isinstance(message, home_words.ChangeSettings):
            if decides and home.active:
                new = towards(home, message.settings)
                presence = self._quitting.staying(presence, new.settings.copies_needed)
                mirrors = mirrored_by(home.master, new, presence)
                self._kept.renew(home, home.master, mirrors, home.run, new)
            return
        next_home = as_said(home, message)
        if next_home is home:
            self._outbox.send(source, home)
        elif message.queue not in self._kept.busy:
            self._kept.keep(next_home)

    def viewed(self) -> None:
        """A new view: homes whose keepers are away get others (rule 2)."""
        presence = self._kept.presence
        if presence is None:
            return
        self._inventory.viewed(presence)
        self.deletions.viewed(presence)
        self._look_round()
        self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))

    def _look_round(self) -> None:
        kept, presence = self._kept, self._kept.presence
        if self._inventory.complete:
            self._later.take_up()
            if not kept.decides:
                kept.decides = True
                self._find_unled()
        if not kept.decides or presence is None:
            return
        for home in list(kept.known.values()):
            self._growing.look_at(home, presence)
            if home.queue not in kept.busy:
                self._rehouse(home, presence)

    def _find_unled(self) -> None:
        """Masters that began anew claimed while nothing could be decided: they are told again."""
        known, presence = self._kept.known.values(), self._kept.presence
        assert presence is not None, "it decides for those who are here"
        self._unled.update({one.queue: None for one in known if _began_anew(one, presence)})
        self._outbox.wake(self._outbox.now)

    def _wake_some(self) -> None:
        """Some of those are told of now, and the others soon: thousands at once would take long."""
        presence = self._kept.presence
        assert presence is not None, "it decides for those who are here"
        for queue in list(islice(self._unled, WOKEN)):
            del self._unled[queue]
            home = self._kept.known.get(queue)
            if home is None or queue in self._kept.busy:
                continue
            if home.active and _began_anew(home, presence):  # else it was heard meanwhile
                self._kept.asleep[queue] = None
        if self._unled:
            self._outbox.wake(later(self._outbox.now, WAKE_EVERY))

    def quits(self, source: NodeId, message: home_words.Quits) -> None:
        """Somebody is to leave in order (rule 11)."""
        presence, quitting = self._kept.presence, self._quitting
        if presence is None or not self._kept.decides or message.run not in presence.streams:
            return  # it asks again
        quitting.quits(message.run)
        homes = list(self._kept.known.values())
        needs = quitting.needs(message.run, homes, presence)
        if needs.count:
            self._look_round()
        self._outbox.send(source, needs)

    def _rehouse(self, home: home_words.Assignment, presence: Presence) -> None:
        old, here = home.keepers, presence.keepers
        begun = home.active or home.before  # else nobody has anything yet
        sources = home.before or home.counted
        if gone_for_ever(sources, presence):  # rule 12
            sources = old
        if begun and not any(keeper in here for keeper in sources):
            return  # rule 4
        presence, altered = self._quitting.stay_for(home, presence)
        likely = [keeper for keeper in (*old, *home.before) if keeper in presence.keepers]
        if home.in_sync:
            likely.sort(key=lambda keeper: keeper not in sources)
        master = likely[0] if likely else drawn(home.queue, presence)
        mirrors = mirrored_by(master, altered, presence, here)
        if (master, *mirrors) != old:
            self._kept.renew(home, master, mirrors, presence.run_of(master), altered)

    # --- an older disk (rule 5) -------------------------------------------------------------------

    def sought(self, _: NodeId, message: home_words.CopiesListed) -> None:
        if self._kept.presence is None or not self._inventory.sought(message):
            return
        for held in message.held:
            if not self.deletions.is_over(message.run, held):
                self._later.learn(held)
        if self._inventory.complete:
            self._look_round()

    # --- deciding ---------------------------------------------------------------------------------

    def _decided(
        self, home: home_words.Assignment, also: NodeId | None, last: home_words.Assignment | None
    ) -> None:
        if home.end is not None:
            self.deletions.buried(home)
            return
        if self._kept.decides and self.deletions.was_deleted(home.queue):
            return
        if self._kept.decides and self._later.decided(home):  # rule 5
            return
        done = "is served by" if home.active else "is given to"
        self._outbox.note(f"{home.queue}: term {home.term} {done} {', '.join(home.keepers)}")
        self._tell(home, also, last)
        if home.active:
            self.making.made(home.queue)
        if self._kept.presence is not None and self._kept.decides:  # a view may have come meanwhile
            self._rehouse(home, self._kept.presence)
            self._growing.look_at(home, self._kept.presence)

    def _tell(
        self,
        home: home_words.Assignment,
        also: NodeId | None = None,
        last: home_words.Assignment | None = None,
    ) -> None:
        """All of whom it speaks, and of whom the last one spoke: some may be left out now."""
        homes = [one for one in (home, last) if one is not None]
        nodes = [node_of(keeper) for one in homes for keeper in (*one.keepers, *one.before)]
        if also is not None:
            nodes.append(also)
        for node in dict.fromkeys(nodes):
            self._outbox.send(node, home)
        self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))

    def tick(self) -> None:
        """Tells masters again of homes that they have not brought to life."""
        if self._kept.presence is None:
            return
        self._inventory.tick()
        self.deletions.tick()
        if self._quitting.stays():  # what was moved away from it may have left a gap
            self._look_round()
        self._growing.tick(self._kept.presence)
        self.making.next()
        self._wake_some()
        for queue in self._kept.asleep:
            home = self._kept.known[queue]
            if queue not in self._kept.busy:
                self._outbox.send(node_of(home.master), home)
                self._outbox.wake(later(self._outbox.now, AGAIN_AFTER))


def _began_anew(home: home_words.Assignment, presence: Presence) -> bool:
    """Whether its master is here, in another run than the one that was given the term."""
    return home.master in presence.keepers and home.run != presence.run_of(home.master)
