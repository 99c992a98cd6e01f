"""Who is heard at a node, and in what: the one place that all passes before any machine hears it.

Of a call it is asked whether its user may ask this, by the table in `wire/rights.py`. Where one
token is all there is, everybody may ask everything, and this costs nothing.

Of what nodes say to each other it is asked whether this node may say this, by the table in
`wire/roles.py`. A name is not enough: whoever knows the cluster's token may greet with one, and
over TLS whoever has a certificate of its authority. So a name counts when the coordinator has
granted its join, and stands in the newest view that is known here. What its role does not allow is
dropped, counted, and written to the audit log as well; of who is in no view the log tells once of
each name. Families bear that: a network may lose anything, and whoever is in a view that is not
known here yet says it again.

While the node's memory is nearly full (`memory.py`), what brings bodies is declined.

What is refused to a user is answered, counted, and written to the audit log (logger
`snowmelt.audit`): who asked, from where, for what, of what. So is a call that changes what others
rely on, when it is allowed. Of each user so many lines of a kind are written in a minute, and of
the rest how many there were: who asks without end does not fill a disk.
"""

import logging
from collections.abc import Callable
from functools import lru_cache
from time import monotonic
from typing import Any, Final

from msgspec.structs import replace

from snowmelt.core.names import NodeId
from snowmelt.core.users import ANYBODY, Right, User
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.protocols.membership import View
from snowmelt.protocols.multicast import calls as multicast
from snowmelt.protocols.queue.api import calls as queue
from snowmelt.protocols.queue.api.backups import Restore
from snowmelt.runtime.connection import LoopConnection, origin_of
from snowmelt.runtime.logs import audit, tell
from snowmelt.runtime.memory import MemoryAlarm
from snowmelt.runtime.statistics import Counts
from snowmelt.wire.rights import ANY, OWN, RULES, refusal
from snowmelt.wire.roles import SIMPLE, Homes, RoleCheck

NAMES_MAX: Final = 1_000
"""So many strangers are told of by name; the rest are only counted."""
LINES_MAX: Final = {"refused": 60, "allowed": 600}
"""So many of one user are written in a minute."""
MINUTE: Final = 60.0
BRINGS: Final = (queue.Put, multicast.Publish, Restore)
"""What takes memory, and gives none back."""
NOTHING: Final = ("",)
"""The patterns of who may see no name."""
_FIELD: Final = {kind: rule.field for kind, rule in RULES.items() if rule.field}
_HOME: Final = frozenset(kind for kind, rule in RULES.items() if rule.home)
_SIMPLE: Final = frozenset(kind for kind, rule in RULES.items() if rule.simple and not rule.home)
_FREE: Final = frozenset(kind for kind, rule in RULES.items() if rule == type(rule)())


class Door:
    """Stands between the network and the machines of a node.

    >>> from snowmelt.core.names import Address
    >>> from snowmelt.protocols.queue.messages.home_words import ListCopies
    >>> from snowmelt.protocols.membership import Member
    >>> came = []
    >>> door = Door(NodeId("n1"), Counts(), lambda source, _: came.append(source), lambda *_: None)
    >>> door.heard(NodeId("n2"), ListCopies(""))
    >>> door.viewed(View(1, 2, "n2", (Member(NodeId("n2"), Address("127.0.0.1", 1), 1, 1),)))
    >>> door.heard(NodeId("n2"), ListCopies(""))
    >>> came
    ['n2']
    """

    def __init__(
        self,
        me: NodeId,
        dropped: Counts,
        deliver: Callable[[NodeId, Any], None],
        homes: Homes,
        *,
        on_disk: bool = True,
        memory: MemoryAlarm | None = None,
    ) -> None:
        self._me = me
        self._dropped = dropped
        self._deliver = deliver
        self._ground = RoleCheck(homes, on_disk)
        self._memory = memory or MemoryAlarm(me, 0)
        self._told: set[NodeId] = set()
        self.refused = Counts()
        """Calls that a user may not ask, and what a node may not say, by their types."""
        self._written: dict[tuple[str, str], tuple[float, int]] = {}
        """When the minute of a kind and a user began, and how many lines there were in it."""

    def viewed(self, view: View) -> None:
        """Whom this node is with from now on."""
        members = frozenset(one.id for one in view.members)
        self._ground.viewed(members, view.coordinator)
        self._told -= members

    # --- what nodes say ---------------------------------------------------------------------------

    def heard(self, source: NodeId, message: Any) -> None:
        """A message came from who greeted as this node."""
        kind = type(message)
        if kind in SIMPLE and source in self._ground.members:  # as mostly
            self._deliver(source, message)
            return
        wrong = self._ground.wrong(source, message)
        if not wrong:
            self._deliver(source, message)
            return
        said, member = kind.__name__, source in self._ground.members
        self._dropped.add("of another role" if member else "of no member")
        self.refused.add(said)
        if self._ground.members and self._writes(
            "refused", f"node {source}"
        ):  # else it knows nobody yet
            audit("refused", node=source, said=said, why=wrong)
        if not member and source not in self._told and len(self._told) < NAMES_MAX:
            self._told.add(source)
            tell("not heard: in no view", logging.WARNING, node=self._me, source=source, said=said)

    # --- what clients ask -------------------------------------------------------------------------

    def called(self, line: LoopConnection, call: Call[Any]) -> None:
        """A call came on a connection whose user is known."""
        if self._memory.why and type(call.body) in BRINGS:
            self._memory.refused += 1
            line.send(Answer(call.number, Declined("Unavailable", self._memory.why)))
            return
        if line.user is not ANYBODY:
            body = self._allowed(line, call)
            if body is None:
                return
            call = Call(call.number, body)
        self._deliver(line.peer, call)

    def _allowed(self, line: LoopConnection, call: Call[Any]) -> Any:
        """What is to be done of a call; None where it was refused."""
        user, body = line.user, call.body
        kind: type = type(body)
        field = _FIELD.get(kind)
        elsewhere = kind in _HOME and body.home
        if field is None or elsewhere or not _may(user, kind, getattr(body, field)):
            body = self._asked(line, call)
            if body is None:
                return None
        own = OWN.get(kind)
        if own is None or not (prefix := _prefix(user)):
            return body
        return replace(body, **{own: prefix + getattr(body, own)})

    def _asked(self, line: LoopConnection, call: Call[Any]) -> Any:
        """The same where a right on one name is not all there is to ask about."""
        user, body = line.user, call.body
        kind: type = type(body)
        if kind in _FREE:
            return body
        if kind in _SIMPLE and all(_may(user, kind, one) for one in RULES[kind].named(body)):
            return body
        told = self.allowed(user, body, origin_of(line), line.peer)
        if type(told) is Declined:
            line.send(Answer(call.number, told))
            return None
        return told

    def allowed(self, user: User, body: Any, origin: str, client: str = "the page") -> Any:
        """A call as this user may ask it, or why it is refused; either is written down."""
        rule = RULES[type(body)]
        wrong = refusal(user, body)
        if wrong:
            self.refused.add(type(body).__name__)
            self._audit("refused", user, body, origin, client)
            return Declined("AccessDenied", wrong)
        if rule.audited:
            self._audit("allowed", user, body, origin, client)
        for field, right in rule.fills:
            may = user.may(right, body.queue)
            body = replace(body, **{field: may and getattr(body, field)})
        if rule.sees and not user.may(Right.ADMIN):
            body = replace(body, **{rule.sees: user.patterns(ANY) or NOTHING})
        return body

    def _writes(self, what: str, whose: str) -> bool:
        """Whether a line of this kind and user, or node, is written."""
        now, most = monotonic(), LINES_MAX[what]
        began, count = self._written.pop((what, whose), (now, 0))
        if now - began >= MINUTE:
            if count > most:
                audit(what, user=whose, more=count - most)
            began, count = now, 0
        if len(self._written) >= NAMES_MAX:
            del self._written[next(iter(self._written))]
        self._written[what, whose] = began, count + 1
        return count < most

    def _audit(self, what: str, user: User, body: Any, origin: str, client: str) -> None:
        if not self._writes(what, user.name):
            return
        names = RULES[type(body)].named(body)
        audit(
            what,
            user=user.name,
            client=client,
            address=origin,
            asked=type(body).__name__,
            of=", ".join(names[:NAMES_SHOWN]),
        )


NAMES_SHOWN: Final = 10
"""Of what one call is about."""


@lru_cache(1 << 14)  # users, calls and names are few; each call of a client asks this
def _may(user: User, kind: type, name: str) -> bool:
    name = name.partition("/")[0]
    return any(user.may(one, name) for one in RULES[kind].rights)


@lru_cache(1 << 10)
def _prefix(user: User) -> str:
    return user.prefix
