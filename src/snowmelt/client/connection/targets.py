"""The nodes that the clients of one cluster may ask.

1. The nodes that the URL names, always; and so many others, who need not be named there.
2. So is any node that was named by an answer to an opening, or gave one.
3. So is every member. They are asked for along with a call: some time after they were last, and
   at once when a way to a node has ended. An other that is a member no more makes room.
4. A node whose connection has ended is not asked first for a while, though a call be best asked
   there: any other node knows which took its place.

So a client finds its way though all that its URL names have gone, and others came in their place.
"""

from random import Random
from typing import Final

from snowmelt.client.connection.url import ClusterURL
from snowmelt.core.errors import AccessDenied, OtherCluster
from snowmelt.core.names import NodeId, contact
from snowmelt.protocols.membership.messages import Status
from snowmelt.protocols.queue.api.calls import Opened

OTHERS_MAX: Final = 16
AWAY_SECONDS: Final = 5.0
AWAY_MAX: Final = 1_000
MEMBERS_EVERY: Final = 5.0
"""So seldom, at most: whose nodes are all replaced meanwhile reaches nobody any more."""
MEMBERS_WITHIN: Final = 0.4
"""So many seconds an answer about members is waited for; no call waits for it, and before this ends
no second node is asked."""


class Targets:
    """A list that clients in any number of threads share: it never gets shorter.

    >>> from snowmelt.client.connection.url import read
    >>> targets = Targets(read("snowmelt://localhost:4410"))
    >>> targets.due(100.0), targets.due(101.0)
    (True, False)
    >>> targets.lost(NodeId("localhost:4411"), 101.0)
    >>> targets.due(101.0), targets.known
    (True, ['localhost:4410'])
    >>> targets.first(NodeId("localhost:4411"), 102.0), targets.first(NodeId("n"), 102.0)
    (None, 'n')
    """

    def __init__(self, place: ClusterURL) -> None:
        self.known = [contact(one) for one in place.addresses]
        self._named = len(self.known)
        self._next = 0.0
        self._chance = Random()
        self._away: dict[NodeId, float] = {}
        """Until when (rule 4)."""
        self._strange: set[NodeId] = set()
        """Who is of another cluster."""

    def due(self, now: float) -> bool:
        """Whether a call that begins now is to ask for the members; once, each time."""
        if now < self._next:
            return False
        self._next = now + MEMBERS_EVERY
        return True

    def lost(self, target: NodeId, now: float) -> None:
        """The way to one of them has ended, or there is none."""
        if len(self._away) >= AWAY_MAX:
            self._away.clear()
        if self._away.get(target, 0.0) <= now:
            self._next = 0.0
        self._away[target] = now + AWAY_SECONDS

    def hopeless(self, target: NodeId, failure: Exception | None) -> bool:
        """Whether to ask others would not help either: they don't let it in, or all are strange.

        >>> from snowmelt.client.connection.url import read
        >>> targets = Targets(read("snowmelt://localhost:4410,localhost:4411"))
        >>> [targets.hopeless(one, OtherCluster()) for one in targets.known]
        [False, True]
        """
        if not isinstance(failure, OtherCluster):
            return isinstance(failure, AccessDenied)
        self._strange.add(target)
        if not self._strange.issuperset(self.known):
            return False
        self._strange.clear()  # the next call looks once more
        return True

    def first(self, target: NodeId | None, now: float) -> NodeId | None:
        """Which node to ask first, where this one would be best; None: the last that answered."""
        return None if target is not None and self._away.get(target, 0.0) > now else target

    def heard(self, target: NodeId | None, answer: object) -> None:
        """A call was answered: by this node, if it is known, and perhaps naming others (rule 2)."""
        if type(answer) is Opened:  # asked at each call
            for place in (answer.master, answer.store, answer.other):
                if place is not None:
                    self._learn(contact(place.address))
        elif type(answer) is Status:
            self._members(answer)
        elif target is not None:
            self._learn(target)

    def _learn(self, target: NodeId) -> None:
        if target not in self.known and len(self.known) < self._named + OTHERS_MAX:
            self.known.append(target)

    def _members(self, status: Status) -> None:
        here = [] if status.view is None else [contact(one.address) for one in status.view.members]
        new = [one for one in here if one not in self.known]
        self._chance.shuffle(new)
        for at in range(self._named, len(self.known)):
            if here and self.known[at] not in here:
                self.known[at] = new.pop() if new else self._chance.choice(here)
        for one in new:
            self._learn(one)
