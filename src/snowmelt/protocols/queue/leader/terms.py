"""Whom this node leads: how terms begin here, and how they end.

Which node leads in which term is decided by the controller (`controller.py`); a term is a
`Assignment`.

1. A run leads in a term once at most. One that it began and left it claims anew.
2. A term is served once the controller has written down that its copies are the queue's.
3. Whoever hears of a later term leads no more, and tells nothing of what it owed.
4. Nor does who is cut off: others may decide without it. Whom it owed an answer asks another.
"""

from typing import Final

from snowmelt.core.instant import Duration, later, milliseconds
from snowmelt.core.names import NodeId
from snowmelt.core.record import UNREADABLE
from snowmelt.protocols.queue.leader.leader import Leader
from snowmelt.protocols.queue.messages import home_words, words
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.partition_words import OwedGrant
from snowmelt.protocols.queue.metadata.metadata_cache import MetadataCache
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.replication.follower_progress import FollowerProgress
from snowmelt.protocols.queue.replication.takeover import TakeOver
from snowmelt.protocols.queue.store.copies import Copies
from snowmelt.protocols.queue.streams import gone_for_ever, node_of, stream_of

AGAIN_AFTER: Final = milliseconds(300)
TRIES_MAX: Final = 5
AT_DOORS: Final = (words.SpreadPut, OwedGrant)


class Terms:
    """The terms of one node: those that it leads in, and those that it is to begin."""

    def __init__(
        self, outbox: Outbox, metadata: MetadataCache, copies: Copies, *, alone: bool
    ) -> None:
        self.leaders: dict[str, Leader] = {}
        self.touched: dict[str, None] = {}
        """Queues whose leaders may have a step to make."""
        self._outbox = outbox
        self._metadata = metadata
        self._copies = copies
        self._alone = alone
        self._takeovers: dict[str, TakeOver] = {}
        self._begun: dict[str, int] = {}
        """The last term of each queue that this run began (rule 1)."""

    def own(self, queue: str) -> int:
        """The term in which this node leads a queue, or is to; 0 for none."""
        leader, taking = self.leaders.get(queue), self._takeovers.get(queue)
        if leader is not None:
            return leader.home.term
        return 0 if taking is None else taking.home.term

    def leading(self, queue: str, term: int) -> Leader | None:
        """Who leads here in that very term; it may have a step to make."""
        leader = self.leaders.get(queue)
        if leader is None or leader.home.term != term:
            return None
        self.touched[queue] = None
        return leader

    def taking(self, queue: str, term: int) -> TakeOver | None:
        """The term that is to begin here, if it is that one."""
        taking = self._takeovers.get(queue)
        return None if taking is None or taking.home.term != term else taking

    def home_of(self, queue: str, term: int) -> Assignment | None:
        """That of a term that this node leads, or is to."""
        own = self.leaders.get(queue) or self._takeovers.get(queue)
        return None if own is None or own.home.term != term else own.home

    # --- what the controller says -----------------------------------------------------------------

    def heard(self, home: Assignment) -> None:
        """A term of a queue: perhaps it is this node's."""
        queue, outbox, own = home.queue, self._outbox, self.own(home.queue)
        leader = self.leaders.get(queue)
        if home.term < own:
            return
        if home.term == own:
            if leader is not None:
                leader.serving = leader.serving or home.active  # rule 2
                leader.in_sync.written(home)
                self.touched[queue] = None
                self.activate(leader)
        elif home.master != outbox.keeper:
            self.resign(queue)
        elif home.run != outbox.stream or home.active or home.term <= self._begun.get(queue, 0):
            self.resign(queue)
            self._claim(queue, home.term)
        else:
            self.resign(queue)
            self._take_over(home)

    def _claim(self, queue: str, term: int) -> None:
        # Rule 1.
        self._outbox.to_coordinator(home_words.RequestTerm(queue, term, self._outbox.stream))

    def superseded(self, _: NodeId, word: words.Superseded) -> None:
        """Somebody heard of a later term (rule 3)."""
        own = self.own(word.queue)
        if 0 < own < word.term and not self._outbox.alarm("a node", word.queue, word.term, own):
            self.yields(word.queue)
            self._claim(word.queue, word.term)

    def yields(self, queue: str) -> None:
        """Another leads in a later term, and it is to be heard who."""
        self.resign(queue)
        self._metadata.forget(queue)

    def resign(self, queue: str) -> None:
        """This node leads no more: its copy is one like any other (rule 3)."""
        self._takeovers.pop(queue, None)
        leader = self.leaders.pop(queue, None)
        if leader is None:
            return
        self._outbox.note(f"{queue}: no longer leader of term {leader.home.term}")
        for operation, request in leader.delivery.open.end_all().items():
            if type(request) not in AT_DOORS:  # what is at a door, that asks for again
                self._outbox.inside.append(words.Again(operation, request))

    def cut_off(self) -> None:
        """Others may decide without this node now: it serves nobody (rule 4)."""
        for queue in [*self.leaders, *self._takeovers]:
            self.resign(queue)

    def viewed(self) -> None:
        """Another view: followers may have begun anew; of queues led elsewhere news is sought."""
        for queue in self._copies:
            leader = self.leaders.get(queue)
            if leader is not None:
                leader.followers.viewed()
                leader.storing.viewed()
            elif not self.own(queue):
                self._metadata.forget(queue)
                self._metadata.ask(queue, None)

    # --- how a term begins ------------------------------------------------------------------------

    def _take_over(self, home: Assignment) -> None:
        queue, copy = home.queue, self._copies.of(home.queue)
        if home.term < copy.fence:
            self._claim(queue, copy.fence)
            return
        if self._copies.gives_up(queue) or copy.left_after(home.before_term):
            return  # the controller says it again, or hears of a later home (`erasing.py`, rule 7)
        self._takeovers[queue] = TakeOver(home, anew=queue not in self._begun)
        self._begun[queue] = home.term
        fence = words.OwnFence(home.term)
        self._copies.disk.write(queue, copy.raise_fence(home.term), fence)
        if home.before:
            self.tick()
        else:  # nobody has a copy yet
            self.own_fence(queue, home.term)

    def tick(self) -> None:
        """Asks, and asks again, for what take-overs still lack."""
        outbox = self._outbox
        for queue, taking in list(self._takeovers.items()):
            again = Duration(AGAIN_AFTER << min(taking.tries, TRIES_MAX))
            if taking.asked and later(taking.asked, again) > outbox.now:
                outbox.wake(later(taking.asked, again))
                continue
            taking.asked, term = outbox.now, taking.home.term
            presence = outbox.presence
            if presence is not None and taking.source not in ("", *presence.keepers):
                taking.heads.pop(taking.source, None)  # it left on the way
                taking.source, taking.piece = "", None
            self._complain(queue, taking)
            self.choose(queue, taking)  # a disk may be known to be gone by now
            if taking.source and taking.piece is not None:
                taking.tries += 1
                self._ask_piece(queue, taking)
            for keeper in taking.unheard(outbox.keeper, self._gone(taking)):
                if keeper != outbox.keeper:
                    since, sought = taking.home.since, taking.home.before_term
                    fence = words.Fence(queue, term, keeper, since=since, sought=sought)
                    outbox.send(node_of(keeper), fence)
            outbox.wake(later(outbox.now, AGAIN_AFTER))

    def _complain(self, queue: str, taking: TakeOver) -> None:
        """Somebody who is here does not answer: another may hear him."""
        presence, now = self._outbox.presence, self._outbox.now
        silent = taking.silent(now)
        if presence is not None and silent in presence.keepers:
            taking.since = now
            self._outbox.note(f"{queue}: {silent} is silent; asks that another takes over")
            word = home_words.Unreached(queue, taking.home.term, taking.home.run, silent)
            self._outbox.to_coordinator(word)

    def own_fence(self, queue: str, term: int) -> None:
        """This node's own copy takes nothing earlier."""
        taking, copy, keeper = self.taking(queue, term), self._copies.of(queue), self._outbox.keeper
        if taking is None:
            return
        taking.fenced = True
        if copy.whole:
            taking.told(keeper, copy.head, sure=copy.sure)
        else:
            taking.hurt[keeper] = None
        self.choose(queue, taking)

    def choose(self, queue: str, taking: TakeOver) -> None:
        """Goes on from the newest copy, as soon as it is known which that is."""
        presence = self._outbox.presence
        if presence is None or taking.source:
            return
        newest = taking.newest(self._outbox.keeper, self._gone(taking))
        if newest is None:
            return
        name, head = newest
        if name == self._outbox.keeper:
            self.lead(queue, taking)
        else:
            taking.source, taking.piece = name, (head, 0)
            self._ask_piece(queue, taking)

    def no_room(self, queue: str, term: int) -> None:
        """For the copy that it is to go on from (`takeover.py`, rule 6)."""
        taking = self.taking(queue, term)
        if self._outbox.presence is not None and taking is not None:
            self._outbox.note(f"{queue}: no room for its copy; asks that {taking.source} leads")
            word = home_words.Aside(queue, term, taking.home.run, taking.source)
            self._outbox.to_coordinator(word)

    def _gone(self, taking: TakeOver) -> list[str]:
        """Whose disks are gone for good."""
        presence, home = self._outbox.presence, taking.home
        if presence is None:
            return []
        named = dict.fromkeys((*home.before, *home.mirrors))
        return [one for one in named if gone_for_ever((one,), presence)]

    def _ask_piece(self, queue: str, taking: TakeOver) -> None:
        assert taking.piece is not None
        head, number = taking.piece
        bring = words.Bring(queue, taking.home.term, self._outbox.keeper, head, number)
        self._outbox.send(node_of(taking.source), bring)

    def lead(self, queue: str, taking: TakeOver) -> None:
        """The term begins; it is served when its first step is safe, and that written down."""
        del self._takeovers[queue]
        home, copies, outbox = taking.home, self._copies, self._outbox
        copy = copies.of(queue)
        here = {} if outbox.presence is None else outbox.presence.keepers
        followers = {
            name: FollowerProgress(run=stream_of(here[name]) if name in here else "")
            for name in home.mirrors
        }
        try:
            leader = Leader(outbox, copies.disk, copies.bodies, copy, home, followers, copies.ways)
        except UNREADABLE as error:  # a member may lie, and a disk
            copy.whole = False  # another term may begin with another copy
            outbox.note(f"{queue}: a record of this copy can't be read, it does not lead: {error}")
            return
        if leader.parted is not None:
            leader.parted.goes_beside(self.leaders)
        for name, head in taking.heads.items():
            if name in followers:
                leader.followers.begins(name, head)
        if leader.state.bound and not taking.certain:
            if leader.parted is None:
                leader.state.tails.leap(leader.state.bound)
            else:
                leader.parted.uncertain = True
        copy.whole = True
        self.leaders[queue] = leader
        if self._alone and taking.anew:
            leader.end_leases()
        leader.tick()
        self.touched[queue] = None

    def activate(self, leader: Leader) -> None:
        """Tells the controller that the first step of a term is safe, until that is known."""
        if not leader.serving and leader.log.safe >= leader.log.begun:
            home = leader.home
            word = home_words.Activate(home.queue, home.term, self._outbox.stream)
            self._outbox.to_coordinator(word)
