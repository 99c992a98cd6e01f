"""Where the root keeps what must outlast it: on its own disk, or in etcd, where that decides.

In etcd there are records of the cluster below `~baton/` (`membership.records`). Only who leads
changes them, and it is told what there is when it begins (`membership.facts`).
"""

from typing import Any, Final, TypeAlias

from snowmelt.core.names import NodeId
from snowmelt.core.node import Effect, Persist, Send
from snowmelt.core.record import Write, erase
from snowmelt.protocols.membership import KeepRecord
from snowmelt.protocols.membership.records import BATONS

COPY: Final = b"/copy"
"""Behind a key, in which no such sign can stand."""


class OnDisk:
    """Each record twice in one step: a disk that hurts one of them hurts nothing."""

    on_disk = True
    """Whether it is this node's own, so that it is there whoever leads."""

    def keep(self, ticket: int, key: bytes, value: bytes) -> Effect[Any]:
        """Keeps a record, or erases it without a value; the root is told under a ticket."""
        keys = key, key + COPY
        return Persist(ticket, tuple([Write(one, value) if value else erase(one) for one in keys]))


class InEtcd:
    """Each record once, by a change that counts only while this node leads."""

    on_disk = False

    def __init__(self, me: NodeId) -> None:
        self._me = me

    def keep(self, ticket: int, key: bytes, value: bytes) -> Effect[Any]:
        """By this node's own membership; no value erases it."""
        return Send(self._me, KeepRecord(ticket, BATONS + key.decode(), value))


Stable: TypeAlias = OnDisk | InEtcd
