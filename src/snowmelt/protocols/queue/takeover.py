"""How a term begins: who is to lead fences the copies of the last term, and takes the newest.

1. So many of the copies are fenced that none that was told as safe can be missing in all of them
   (`answers_needed`). From then on nothing of an earlier term is safe.
2. The newest of these copies is the one to go on from: the last step of the latest term.
3. When it lies elsewhere it is brought here, piece by piece, and then replaces the own copy.
"""

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.protocols.fifo.messages import Home
from snowmelt.protocols.queue.words import Head


class TakeOver(msgspec.Struct):
    """A term that this node is to lead and has not begun."""

    home: Home
    begun: Instant
    heads: dict[str, Head] = {}
    """Of the copies that are fenced."""
    source: str = ""
    """Whose copy is on its way here."""
    asked: Instant = Instant(0)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Whose copies may have what was told."""
        return self.home.before

    def newest(self, own: str) -> tuple[str, Head] | None:
        """The copy to go on from, this node's if that is as new; None while too few are fenced."""
        told = {name: head for name, head in self.heads.items() if name in self.wanted}
        if self.wanted and len(told) < self.home.settings.answers_needed:
            return None
        if own not in self.heads:
            return None
        if not told:
            return own, self.heads[own]
        best = max(told.values())
        if self.heads[own] >= best:
            return own, self.heads[own]
        return min(name for name, head in told.items() if head == best), best

    def unheard(self, own: str) -> list[str]:
        """Who has not answered yet."""
        return [one for one in dict.fromkeys((*self.wanted, own)) if one not in self.heads]
