"""How a term begins: who is to lead fences the copies of the last term, and takes the newest.

1. So many of the copies that count (`in_sync.py`) are fenced that none that was told as safe can be
   missing in all of them (`answers_needed`). From then on nothing of an earlier term is safe. A
   copy that can't be read may have been one of those that had it, so it is none of these; nor is
   one that may lack what it told (`copy.py`, rule 5).
2. The newest of these copies is the one to go on from: the last step of the latest term.
3. When all have answered, or have lost their disks, the newest there is must do: what was told may
   be missing in it, and nobody has it. Where all of them are lost, it is the newest of the others.
4. When it lies elsewhere it is brought here, piece by piece, and then replaces the own copy.
5. Whom this node needs and does not hear, though its node is here, is told to the controller: the
   next in the ring may hear it.
"""

from collections.abc import Collection

import msgspec

from snowmelt.core.instant import Duration, Instant
from snowmelt.protocols.fifo.messages import Home
from snowmelt.protocols.queue.words import NOTHING, Head


class TakeOver(msgspec.Struct):
    """A term that this node is to lead and has not begun."""

    home: Home
    heads: dict[str, Head] = {}
    """Of the copies that are fenced."""
    source: str = ""
    """Whose copy is on its way here."""
    piece: tuple[Head, int] | None = None
    """Of that copy, which piece is next; None when the last of them is being written."""
    asked: Instant = Instant(0)
    heard: Instant = Instant(0)
    """When it began, or a piece came last."""
    complain_at: Instant = Instant(0)
    patience: Duration = Duration(0)
    """Until who is silent is told of again (rule 5)."""
    fenced: bool = False
    """Whether this node's own fence is flushed."""
    hurt: dict[str, None] = {}
    """Those that can't be read."""
    unsure: dict[str, None] = {}
    """Those that may lack what they told."""

    def told(self, keeper: str, head: Head, *, sure: bool) -> None:
        """One is fenced, and has this."""
        self.heads[keeper] = head
        self.unsure.pop(keeper, None)
        if not sure:
            self.unsure[keeper] = None

    @property
    def certain(self) -> bool:
        """Whether nothing that was told can be missing (rule 1)."""
        sure = [one for one in self.home.before if one in self.heads and one not in self.unsure]
        return len(sure) >= self.home.answers_needed

    def newest(self, own: str, gone: Collection[str]) -> tuple[str, Head] | None:
        """The copy to go on from, this node's if that is as new; None while it is not known."""
        source = self._source(gone)
        told = {name: head for name, head in self.heads.items() if name in source}
        all_told = all(one in told or one in self.hurt or one in gone for one in source)
        if not self.fenced or not (self.certain or all_told):
            return None
        best = max(told.values(), default=NOTHING)
        if not told or self.heads.get(own, NOTHING) >= best:
            return own, self.heads.get(own, NOTHING)
        return min(name for name, head in told.items() if head == best), best

    def _source(self, gone: Collection[str]) -> tuple[str, ...]:
        """Whose copies may be the one to go on from (rule 3)."""
        home = self.home
        lost = bool(home.before) and all(one in gone for one in home.before)
        return (home.master, *home.mirrors) if lost else home.before

    def unheard(self, own: str, gone: Collection[str]) -> list[str]:
        """Who has not answered yet."""
        named = dict.fromkeys((*self._source(gone), own))
        return [one for one in named if one not in self.heads and one not in self.hurt]
