"""What the root does for batons: finds them, makes them anew, and keeps their last values.

Every node can do this; only the root of the present view is asked to. Rules 10 to 12, 14 and 15.
"""

from collections.abc import Sequence
from itertools import count
from typing import Final

from msgspec.structs import replace

from snowmelt.core.instant import Instant, since
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Note, Reply, Send, Started
from snowmelt.protocols.baton import messages
from snowmelt.protocols.baton.context import NodeContext
from snowmelt.protocols.baton.fences import KEY, Fences
from snowmelt.protocols.baton.names import Names
from snowmelt.protocols.baton.relay import Effects
from snowmelt.protocols.baton.retired_names import LINES_MAX, NameRecord
from snowmelt.protocols.baton.stable import InEtcd, OnDisk
from snowmelt.protocols.baton.token_census import TokenCensus, TokenCensuses, Verdict
from snowmelt.protocols.baton.values import SavedValue, Values
from snowmelt.protocols.calling import Declined, Elsewhere
from snowmelt.protocols.membership import Leads
from snowmelt.protocols.membership.records import BATONS


class Registrar:
    """What the root does for all names: it counts tokens and keeps values."""

    def __init__(self, here: NodeContext, names: Names) -> None:
        self._here = here
        self._names = names
        self.censuses: Final = TokenCensuses(here)
        self._called_in: set[str] = set()
        """Tokens that are to rest here, since nobody uses them."""
        tickets, stable = count(), InEtcd(here.me) if here.etcd else OnDisk()
        self._values = Values(tickets, stable)
        self._fences = Fences(tickets, stable)
        self._heir = False
        """Whether other roots were before this one, where etcd decides."""
        self._made: dict[str, int] = {}
        """The fence of the last baton that this process made; what is older is void."""
        self._since: Instant | None = None
        """Since when nobody may know any more of a baton that this process has forgotten."""

    # --- the disk ---------------------------------------------------------------------------------

    def started(self, start: Started, now: Instant) -> Effects:
        self._since = now
        effects = self._fences.started(start, now)
        found, written = self._values.started(start)
        for name, kept in found.items():
            self._names.folds.put(name, NameRecord(version=kept.version, value=kept.value))
        return [*effects, *written]

    # --- etcd -------------------------------------------------------------------------------------

    def lead(self, leads: Leads, now: Instant) -> Effects:
        """Rule 18: what this process knows of an earlier time in which it led counts no more."""
        rows = {key.encode(): value for key, value in leads.batons}
        self._heir, self._since = KEY in rows, now
        self.censuses.clear()
        self._called_in.clear()
        effects = self._fences.lead(rows.pop(KEY, None), now)
        found, notes = self._values.lead({key.decode(): value for key, value in rows.items()})
        for name, kept in found.items():
            self._learn(name, kept)
        return [*effects, *notes]

    def lead_no_more(self) -> None:
        """Nothing is made here, and nothing kept, until this node leads again."""
        self._fences.lead_no_more()
        self._values.lead_no_more()

    def flush(self, now: Instant) -> Effects:
        """On the beat, and when there is something: rules 20 and 21."""
        return [*self._values.flush(now), *self.censuses.beat(now)]

    def _learn(self, name: str, kept: SavedValue) -> None:
        """What a baton that is made here begins with, whether anybody uses the name or not."""
        baton, line = self._names.get(name), self._names.folds.get(name)
        if baton is not None:
            baton.relay.newest.learn(kept.version, kept.value)
            baton.relay.newest.kept(kept.version)
        elif kept.version > line.version:
            self._names.folds.take(name)
            line = replace(line, version=kept.version, value=kept.value)
            self._names.folds.put(name, line)

    def entered(self, gone: Sequence[NodeId], now: Instant) -> Effects:
        """A new view; one who is gone may have been the last that knew of a baton (rule 12)."""
        if gone:
            self._since = now
        return self._fences.entered(now) if self._here.led is not None else []

    def backup(self, source: NodeId, backup: messages.Backup) -> Effects:
        """A newer value, if it is not of a baton that was lost since."""
        view = self._here.view
        if self._here.etcd and (view is None or backup.epoch < view.epoch):
            return []  # another root may have made that baton anew since (rule 18)
        if backup.version.fence < self._made.get(backup.name, 0):
            text = f"baton {backup.name!r} is lost: it had been taken for lost, and made again"
            late = messages.Stored(backup.name, backup.number, "BatonLost", text)
            return [Send(source, late)] if backup.number else []
        return self._values.backup(source, backup)

    def reached(self, source: NodeId, word: messages.Reached) -> Effects:
        """A baton has been handed on a million times, or may not be without a word from here."""
        effects = self._fences.saw(word.fence)
        if self._here.etcd and self._fences.covers(word.fence + 1):
            effects.append(Send(source, messages.Reserved(word.name, self._fences.reserved)))
        return effects

    def reset(self, operation: OperationId, name: str) -> Effects:
        """Somebody gives up a value that can't be read."""
        view, root = self._here.view, self._here.root
        member = None if view is None else view.member(root)
        if member is None:
            text = f"{self._here.me} has no current view of the cluster; ask another node"
            return [Reply(operation, Declined("Unavailable", text))]
        if root != self._here.me:
            return [Reply(operation, Elsewhere(root, member.address))]
        return self._values.reset(operation, name)

    def forgo(self, name: str) -> Effects:
        """Who waits for this one needs no value."""
        spoiled = name in self._values.spoiled and not self._values.writes(name)
        return self._values.reset(None, name) if spoiled else []

    def persisted(self, ticket: int, now: Instant, failure: str = "") -> Effects:
        if self._fences.settled(ticket, failure):
            return []
        one, effects = self._values.persisted(ticket, failure)
        if one is None or failure:
            return effects
        if one.kept.version > self._newest(one.name):
            baton = self._names.use(one.name, now)
            baton.relay.newest.learn(one.kept.version, one.kept.value)
            baton.relay.newest.kept(one.kept.version)
        return effects

    def _newest(self, name: str) -> messages.Version:
        baton = self._names.get(name)
        return self._names.folds.get(name).version if baton is None else baton.relay.newest.version

    # --- the search -------------------------------------------------------------------------------

    def complained(self, word: messages.Complaint, now: Instant) -> Effects:
        """Rule 11: all are asked, unless they are being asked."""
        if self._here.led is None:
            return []
        self.censuses.of(word.name).complain(word.place, now, orphan=word.orphan)
        return [*self.censuses.ask(word.name, now)]

    def told(self, source: NodeId, told: messages.CensusReply, now: Instant) -> Effects:
        inquest = self.censuses.get(told.name)
        if inquest is None or told.census.epoch != self._here.epoch:
            return []
        verdict = inquest.hear(source, told)
        if verdict is Verdict.OPEN:
            return []
        return [*self._act(told.name, inquest, verdict, now), *self.censuses.ended(told.name, now)]

    def _act(self, name: str, inquest: TokenCensus, verdict: Verdict, now: Instant) -> Effects:
        if verdict in (Verdict.RESTS, Verdict.LOST) and inquest.asleep:
            return self._call_in(name, now)
        match verdict:
            case Verdict.DOUBLED:
                (_, first), *others = inquest.having
                return [Send(node, messages.Void(name, first.fence - 1)) for node, _ in others]
            case Verdict.RESTS:
                return self._point(name, inquest, now)
            case Verdict.LOST:
                return self._make(name, inquest, now)
            case _:
                return []

    def _point(self, name: str, inquest: TokenCensus, now: Instant) -> Effects:
        node, has = inquest.having[0]
        place = inquest.choose(now, self.censuses.fresh, has.fence, self._here)
        return [] if place is None else [Send(node, messages.Follow(name, has.fence, place))]

    def _make(self, name: str, inquest: TokenCensus, now: Instant) -> Effects:
        """Rule 12: not before whoever may believe to hold it knows better."""
        if name in self._values.spoiled:
            return self._refuse(name, inquest, now)
        patience = self._here.settings.patience
        if inquest.lost is None:
            inquest.lost = now
        started = self._since
        ended = self._here.alone and self._fences.earlier(inquest.next_fence(0) - 1)
        if inquest.ever and not ended and since(inquest.lost, now) < patience:
            return []
        again = self._heir if self._here.etcd else self._here.again
        if again and not ended and started is not None and since(started, now) < patience:
            return []  # an earlier process may have made it, for one who is gone
        if self._values.writes(name):
            return []  # somebody may be told that it is safe
        baton = self._names.use(name, now)
        node, version = inquest.newest_value()
        if version > baton.relay.newest.version and version.fence >= self._made.get(name, 0):
            return [Send(node, messages.Yield(name))]
        first = self._fences.first
        if first is None:
            return self._fences.again()
        fence, again = inquest.next_fence(max(first, self._names.folds.floor)), inquest.ever
        if not self._fences.covers(fence + 1):
            return self._fences.saw(fence + 1)
        place = inquest.choose(now, self.censuses.fresh, 0, self._here)
        if place is None:
            return []
        inquest.lost = None
        _voids(self._made, name, fence)
        effects = [*baton.relay.begin(place, fence, now), *baton.settle(now)]
        effects += self.came(name, now)
        return [Note(f"baton {name} is made anew"), *effects] if again else effects

    def _refuse(self, name: str, inquest: TokenCensus, now: Instant) -> Effects:
        """Rule 14: nothing is made of a value that can't be read."""
        where = f"on the disk of {self._here.me}: put a sound copy of that disk back"
        if self._here.etcd:
            where = f"in etcd: put {BATONS}{name} back there"
        text = f"the value of baton {name!r} can't be read {where}, or give it up with:"
        text += f" snowmelt baton reset {name}"
        nodes = inquest.complaining(now, self.censuses.fresh, self._here)
        return [Send(node, messages.Spoiled(name, text)) for node in nodes]

    # --- names that nobody uses -------------------------------------------------------------------

    def quiet(self, source: NodeId, word: messages.Quiet, now: Instant) -> Effects:
        """Rule 15: a node does not use it; maybe nobody does."""
        name = word.name
        if self._here.led is None:
            return []
        line = self._names.folds.get(name)
        if line.made and word.fence <= line.fence:
            return [
                Send(source, messages.Fold(name, line.fence))
            ]  # it has not heard it, or did not fold
        return [*self.censuses.ask(name, now)]

    def _call_in(self, name: str, now: Instant) -> Effects:
        """The token is to rest here, and all arrows to lead here."""
        if self._names.rests(name):
            return self._fold(name, now)
        self._called_in.add(name)
        return self._names.use(name, now).relay.come(now)

    def came(self, name: str, now: Instant) -> Effects:
        """A token is here; perhaps it was called in."""
        if name not in self._called_in:
            return []
        self._called_in.discard(name)
        return self._fold(name, now)

    def folded(self, name: str) -> Effects:
        """This node has folded it: no more is to be known of it."""
        self.censuses.forget(name)
        self._called_in.discard(name)
        line = self._names.folds.get(name)
        if not line.made or line.value:
            return []
        effects = self._values.erase(name)
        if effects:
            _voids(self._made, name, line.fence)
        return effects

    def _fold(self, name: str, now: Instant) -> Effects:
        """Tells all, unless the value is to be written first: then it waits to be asked again."""
        view, relay = self._here.view, self._names.use(name, now).relay
        if view is None or self._values.writes(name) or not self._names.rests(name):
            return []
        newest = relay.newest
        if newest.version > self._values.stored(name) and relay.newest.goes_to_root:
            word = messages.Backup(
                name, newest.version, newest.value, behind=True, epoch=view.epoch
            )
            return self.backup(self._here.me, word)
        return [Send(one.id, messages.Fold(name, relay.fence)) for one in view.members]


def _voids(made: dict[str, int], name: str, fence: int) -> None:
    """What was given by a hold with a smaller fence counts no more."""
    made[name] = fence
    if len(made) > LINES_MAX:
        del made[next(iter(made))]
