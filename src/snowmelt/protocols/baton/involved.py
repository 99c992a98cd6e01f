"""Which names a client may wait for, or hold: what its end concerns, and nothing else (rule 13)."""

from collections.abc import Iterable
from typing import Final

from snowmelt.core.names import NodeId
from snowmelt.protocols.baton.baton import LocalBaton, concerns
from snowmelt.protocols.baton.names import Names

STALE_MAX: Final = 64
"""So many names more than twice those that concern it are kept of one client."""


class Involved:
    """The names that each client has asked for since it came; those it is done with fall out."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._of: dict[NodeId, dict[str, None]] = {}
        self._most: dict[NodeId, int] = {}
        """Above so many it is looked which of them still concern the client."""

    def add(self, client: NodeId, names: Iterable[str]) -> None:
        """It asks for these, or keeps them. O(names), on average."""
        own = self._of.setdefault(client, {})
        own.update(dict.fromkeys(names))
        if len(own) > self._most.get(client, STALE_MAX):
            self._of[client] = own = {one.name: None for one in self._concerned(client)}
            self._most[client] = 2 * len(own) + STALE_MAX

    def count(self, client: NodeId) -> int:
        """How many names it has asked for, as far as they are remembered."""
        return len(self._of.get(client, ()))

    def take(self, client: NodeId) -> list[LocalBaton]:
        """All its connections have ended: what that concerns. O(its names)."""
        concerned = self._concerned(client)
        self._of.pop(client, None)
        self._most.pop(client, None)
        return concerned

    def _concerned(self, client: NodeId) -> list[LocalBaton]:
        batons = map(self._names.get, self._of.get(client, ()))
        return [one for one in batons if one is not None and concerns(one, client)]
