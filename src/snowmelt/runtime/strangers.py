"""Who is heard as a node: members of the view; of all others only what asks to be let in.

This is the one place where what another node says passes, before any machine hears it. A name is
not enough: whoever knows the cluster's token may greet with one, and over TLS whoever has a
certificate of its authority. So a name counts when the coordinator has granted its join, and stands
in the newest view that is known here. Who does not stand there may ask to join, may say what shows
that it does not know yet that it is out, and may answer what this node asked
(`membership.messages.OF_STRANGERS`); membership looks at each of these words by itself. A call is
heard of anybody that was let in: it is what clients say.

All else is dropped, counted, and told once of each name. Families bear that: a network may lose
anything, and whoever is in a view that is not known here yet says it again.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from snowmelt.core.names import NodeId
from snowmelt.protocols.calling import Call
from snowmelt.protocols.membership import View
from snowmelt.protocols.membership.messages import OF_STRANGERS
from snowmelt.runtime.logs import tell
from snowmelt.runtime.statistics import Counts

NAMES_MAX: Final = 1_000
"""So many strangers are told of by name; the rest are only counted."""


class Strangers:
    """Stands between the network and the machines of a node.

    >>> from snowmelt.core.names import Address
    >>> from snowmelt.protocols.queue.messages import ListCopies
    >>> from snowmelt.protocols.membership import Member
    >>> came = []
    >>> strangers = Strangers(NodeId("n1"), Counts(), lambda source, _: came.append(source))
    >>> strangers.deliver(NodeId("n2"), ListCopies(""))
    >>> strangers.viewed(View(1, 2, "n1", (Member(NodeId("n2"), Address("127.0.0.1", 1), 1, 1),)))
    >>> strangers.deliver(NodeId("n2"), ListCopies(""))
    >>> came
    ['n2']
    """

    def __init__(self, me: NodeId, dropped: Counts, deliver: Callable[[NodeId, Any], None]) -> None:
        self._me = me
        self._dropped = dropped
        self._deliver = deliver
        self._members: frozenset[NodeId] = frozenset()
        self._told: set[NodeId] = set()

    def viewed(self, view: View) -> None:
        """Whom this node is with from now on."""
        self._members = frozenset(one.id for one in view.members)
        self._told -= self._members

    def deliver(self, source: NodeId, message: Any) -> None:
        """A message came from the network, from who greeted under this name."""
        kind = type(message)
        if kind is Call or source in self._members or kind in OF_STRANGERS:
            self._deliver(source, message)
            return
        self._dropped.add("of no member")
        if source not in self._told and len(self._told) < NAMES_MAX:
            self._told.add(source)
            said = kind.__name__
            tell("not heard: in no view", logging.WARNING, node=self._me, source=source, said=said)
