"""Which right each call takes, and on what: one table, which the door asks (`runtime/door.py`).

1. Every call of the wire has a line here. One without a line fails where this is imported.
2. A line names rights of which one is enough, and the fields that name what the call is about: a
   queue, a pool, a baton, a topic. Where there are several names, the right is needed on each.
   No field: it is about the cluster. No right: whoever was let in may ask it.
3. A partition is asked about by the right on its queue.
4. Names of producers and groups belong to the user who says them (`core.users.OwnName`). The door
   puts the user before such a name in a call, and takes it away from what the user is shown.
5. A call that lists names has a field for the patterns of names that the user may see; one that may
   make a queue, or tell the names of clients, has a field that says whether it may. The door fills
   these in.
"""

from typing import Any, Final, get_args

import msgspec
from msgspec import inspect
from msgspec.structs import replace

from snowmelt.core.users import Right, User
from snowmelt.protocols.baton import calls as baton
from snowmelt.protocols.calling import Answer, Declined
from snowmelt.protocols.echo import messages as echo
from snowmelt.protocols.membership import messages as membership
from snowmelt.protocols.multicast import calls as multicast
from snowmelt.protocols.pool import introductions as pool
from snowmelt.protocols.queue.api import calls as queue
from snowmelt.protocols.queue.api.backups import Restore, Save
from snowmelt.protocols.queue.api.deletes import Delete
from snowmelt.protocols.queue.api.drains import Drain
from snowmelt.protocols.queue.api.schedules import ListSchedules, Schedule, Unschedule
from snowmelt.protocols.queue.api.statuses import (
    ChangeItem,
    DescribeItem,
    ItemStatus,
    ListConsumers,
    ListQueues,
    Overview,
    PeekHeld,
    ShowItem,
    TracedItem,
    TraceItem,
    TraceKind,
)
from snowmelt.wire.codec import Request

PUT, GET, PEEK = (Right.PUT,), (Right.GET,), (Right.PEEK,)
MANAGE, ADMIN = (Right.MANAGE,), (Right.ADMIN,)
ANY: Final = (*PUT, *GET, *PEEK, *MANAGE)
"""Who may do something with it may also know that it is there, and how it is."""


class Rule(msgspec.Struct, frozen=True):
    """What one call takes."""

    rights: tuple[Right, ...] = ()
    """One of these is enough; none: whoever was let in may ask it."""
    names: tuple[str, ...] = ()
    """The fields that name what it is about; "shares.queue" is that of each of its shares."""
    flags: tuple[tuple[str, Right], ...] = ()
    """Where such a field is true, this right is needed as well."""
    others: tuple[tuple[str, Right], ...] = ()
    """Fields as of `names` that name what else it is about, and the right that is needed there."""
    home: bool = False
    """Whether its field `home`, if not empty, names the queue that decides a transaction, and
    remembers its producer: `PUT` or `GET` is needed there."""
    sees: str = ""
    """The field for the patterns of names that the user may see."""
    fills: tuple[tuple[str, Right], ...] = ()
    """Fields that the door fills in: whether the user has this right on what it is about."""
    audited: bool = False
    """Whether it is written down when it is allowed, too: it changes what others rely on."""

    @property
    def simple(self) -> bool:
        """Whether the right on each name is all there is to ask about, as mostly."""
        return bool(self.names) and not (self.flags or self.others or self.fills or self.audited)

    @property
    def field(self) -> str:
        """That of the one name where that is so; else nothing."""
        one = self.names[0] if self.simple and len(self.names) == 1 else ""
        return "" if "." in one else one

    def named(self, call: Any) -> list[str]:
        """What the call is about.

        >>> settle = queue.Settle("old", 7)
        >>> RULES[queue.Get].named(queue.Get("orders", 1, 1, 0, settle))
        ['orders', 'old']
        """
        return [name for field in self.names for name in _said_in(call, field)]


def _said_in(call: Any, field: str) -> list[str]:
    """What a field names, or each of several; one behind a point is in each of them."""
    first, _, then = field.partition(".")
    value = getattr(call, first)
    if value is None:
        return []
    some = value if isinstance(value, tuple) else (value,)
    return [getattr(one, then) for one in some] if then else list(some)


_QUEUE: Final = ("queue",)
_NAME: Final = ("name",)
_POOL: Final = ("pool",)

RULES: Final[dict[type, Rule]] = {
    # the cluster
    membership.GetStatus: Rule(),
    membership.Forget: Rule(ADMIN, audited=True),
    Drain: Rule(ADMIN, audited=True),
    echo.Echo: Rule(),
    echo.Remember: Rule(ADMIN),
    echo.Recall: Rule(ADMIN),
    # queues
    queue.Open: Rule(ANY, _QUEUE, fills=(("may_make", Right.MANAGE),)),
    queue.Put: Rule(PUT, _QUEUE, home=True),
    queue.PublishStaged: Rule(PUT, _QUEUE),
    queue.Plan: Rule(PUT, ("queue", "shares.queue")),
    queue.Commit: Rule(
        (*PUT, *GET),
        ("queue",),
        others=(("settles.queue", Right.GET), ("sources", Right.GET), ("shares.queue", Right.PUT)),
    ),
    queue.Promise: Rule(GET, _QUEUE, home=True),
    queue.Get: Rule(GET, ("queue", "settle.queue")),
    queue.CancelGet: Rule(GET, _QUEUE),
    queue.Settle: Rule(GET, _QUEUE),
    queue.Fetch: Rule((*GET, *PEEK), _QUEUE),
    queue.Peek: Rule(PEEK, _QUEUE),
    queue.Select: Rule(PEEK, _QUEUE),
    queue.Assign: Rule(GET, _QUEUE),
    queue.Locate: Rule(GET, _QUEUE),
    queue.Survey: Rule((*GET, *PEEK), _QUEUE),
    queue.ReleaseGroup: Rule(GET, _QUEUE, audited=True),
    queue.ListGroups: Rule((*GET, *PEEK, *MANAGE), _QUEUE),
    queue.Alter: Rule(MANAGE, _QUEUE, audited=True),
    queue.Purge: Rule(MANAGE, _QUEUE, audited=True),
    queue.Pause: Rule(MANAGE, _QUEUE, audited=True),
    queue.Redrive: Rule(MANAGE, _QUEUE, audited=True),
    Delete: Rule(MANAGE, _QUEUE, audited=True),
    Schedule: Rule(MANAGE, _QUEUE, audited=True),  # it goes on putting when its user may not
    Unschedule: Rule(MANAGE, _QUEUE, audited=True),
    ListSchedules: Rule(ANY, _QUEUE),
    queue.Describe: Rule(ANY, _QUEUE),
    ListQueues: Rule(sees="only"),
    Overview: Rule(sees="only"),
    ListConsumers: Rule(ADMIN, _QUEUE),
    DescribeItem: Rule(ADMIN, _QUEUE),  # it names the client that has it
    ShowItem: Rule(PEEK, _QUEUE),
    PeekHeld: Rule(PEEK, _QUEUE, fills=(("names", Right.ADMIN),)),
    TraceItem: Rule(PEEK, _QUEUE, fills=(("names", Right.ADMIN),)),
    ChangeItem: Rule(MANAGE, _QUEUE, audited=True),
    Save: Rule(ADMIN, _QUEUE),
    Restore: Rule(ADMIN, _QUEUE),
    # pools
    pool.Introduce: Rule(
        (*PUT, *GET), _POOL, flags=(("produces", Right.PUT), ("consumes", Right.GET))
    ),
    pool.ListPools: Rule(sees="only"),
    pool.DescribePool: Rule(ANY, _POOL),
    # batons
    baton.Acquire: Rule(GET, _NAME),
    baton.Renew: Rule(GET, _NAME),
    baton.RenewMany: Rule(GET, ("holdings.name",)),
    baton.SaveValue: Rule(GET, _NAME),
    baton.Release: Rule(GET, _NAME),
    baton.GetBaton: Rule(ANY, _NAME),
    baton.ListBatons: Rule(sees="only"),
    baton.LookAtBatons: Rule(sees="only"),
    baton.ResetBaton: Rule(MANAGE, _NAME, audited=True),
    # topics
    multicast.Publish: Rule(PUT, _NAME),
    multicast.Listen: Rule(GET, _NAME),
}


def check(rules: dict[type, Rule], calls: tuple[type[msgspec.Struct], ...]) -> None:
    """Each call has a line, and each line's fields are there (rule 1); raises `TypeError`.

    >>> check({}, (echo.Echo,))
    Traceback (most recent call last):
    TypeError: Echo has no line in wire/rights.py: which right does it take, and on what?
    """
    for kind in calls:
        if kind not in rules:
            text = f"{kind.__name__} has no line in wire/rights.py: which right does it take, and"
            raise TypeError(f"{text} on what?")
        rule = rules[kind]
        others = [field for field, _ in rule.others]
        said = [name.split(".")[0] for name in (*rule.names, *others)]
        said += [flag for flag, _ in rule.flags]
        fields = {*said, "home" * rule.home, rule.sees, *dict(rule.fills)} - {""}
        if lacks := fields - {*kind.__struct_fields__}:
            raise TypeError(f"{kind.__name__} has no field {', '.join(sorted(lacks))}")
        if rule.rights and not rule.names and rule.rights != ADMIN:
            raise TypeError(f"{kind.__name__} takes a right on a name, and has no name")


check(RULES, get_args(Request))


def refusal(user: User, call: Any) -> str:
    """What is wrong with it that this user asks this; nothing when it may.

    >>> shop = User("shop", ())
    >>> refusal(shop, queue.Purge("orders"))
    "user 'shop' needs the right manage:orders for Purge"
    >>> refusal(shop, membership.Forget("n3"))
    "user 'shop' needs the right admin for Forget"
    """
    rule, what = RULES[type(call)], type(call).__name__
    if not rule.rights or user.may(Right.ADMIN):
        return ""
    needed = [rule.rights, *((right,) for flag, right in rule.flags if getattr(call, flag))]
    if not rule.names:
        return _said(user, what, "", rule.rights)
    for name in dict.fromkeys(one.partition("/")[0] for one in rule.named(call)):
        for rights in needed:
            if not any(user.may(one, name) for one in rights):
                return _said(user, what, name, rights)
    home = call.home.partition("/")[0] if rule.home else ""
    if home and not any(user.may(one, home) for one in (*PUT, *GET)):
        return _said(user, what, home, (*PUT, *GET))
    for field, right in rule.others:
        for name in dict.fromkeys(one.partition("/")[0] for one in _said_in(call, field)):
            if not user.may(right, name):
                return _said(user, what, name, (right,))
    return ""


def _own_field(kind: type) -> str:
    fields = inspect.type_info(kind).fields  # type: ignore[attr-defined]
    own = [one.name for one in fields if getattr(one.type, "extra", None) == {"own": True}]
    assert len(own) < 2, f"{kind.__name__} has two names of its user's own"
    return own[0] if own else ""


OWN: Final = {kind: field for kind in RULES if (field := _own_field(kind))}
"""The field of a call that is a name of the user's own (rule 4)."""


def as_seen(user: User, message: Any) -> Any:
    """A message as this user may see it (rule 4).

    >>> groups = tuple([queue.GroupStatus(name, 1, 1, 1, 1) for name in ("shop/a", "ops/b")])
    >>> as_seen(User("shop", ()), Answer(1, queue.Groups(groups))).body.groups[0].name
    'a'
    """
    if type(message) is not Answer or type(message.body) not in _NAME_OWNS:
        return message
    prefix, body = user.prefix, message.body
    if not prefix:
        return message
    if type(body) is ItemStatus:
        return Answer(message.number, _as_own(prefix, body))
    if type(body) is TracedItem:
        events = tuple(
            [
                replace(one, who=_own(prefix, one.who)) if one.kind is TraceKind.GIVEN else one
                for one in body.events
            ]
        )
        traced = replace(body, status=_as_own(prefix, body.status), events=events)
        return Answer(message.number, traced)
    if type(body) is Declined:
        return Answer(message.number, Declined(body.error, body.text.replace(prefix, "")))
    own = [one for one in body.groups if one.name.startswith(prefix)]
    some = tuple([replace(one, name=one.name.removeprefix(prefix)) for one in own])
    return Answer(message.number, queue.Groups(some))


_NAME_OWNS: Final = (queue.Groups, Declined, ItemStatus, TracedItem)
"""Answers in which names of several users may stand."""


def _as_own(prefix: str, status: ItemStatus) -> ItemStatus:
    return replace(status, group=_own(prefix, status.group)) if status.group else status


def _own(prefix: str, name: str) -> str:
    """A name of this user, or nothing of another's."""
    return name.removeprefix(prefix) if name.startswith(prefix) else ""


def _said(user: User, what: str, name: str, rights: tuple[Right, ...]) -> str:
    words = [f"{one.value}:{name}" if name else one.value for one in rights]
    several = f"{', '.join(words[:-1])} or {words[-1]}" if words[1:] else words[0]
    return f"user {user.name!r} needs the right {several} for {what}"
