"""How a term begins: who is to lead fences the copies of the last term, and takes the newest.

1. So many of the copies that count (`in_sync.py`) are fenced that none that was told as safe can be
   missing in all of them (`answers_needed`). From then on nothing of an earlier term is safe. A
   copy that can't be read may have been one of those that had it, so it is none of these; nor is
   one that may lack what it told (`copy.py`, rule 5).
2. The newest of these copies is the one to go on from: the last step of the latest term.
3. When all have answered, or have lost their disks, the newest there is must do: what was told may
   be missing in it, and nobody has it. Where all of them are lost, it is the newest of the others.
4. When it lies elsewhere it is brought here, piece by piece, and then replaces the own copy.
5. Where it goes no further since somebody who is here is silent, the controller is told: another is
   to try, who may hear him (`controller.py`, rule 2).
6. Where there is no room for it here, the controller is told: whose copy it is may lead.
"""

from collections.abc import Collection
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.words import NOTHING, Head

SILENT_MAX: Final = seconds(5)


class TakeOver(msgspec.Struct):
    """A term that this node is to lead and has not begun."""

    home: Assignment
    heads: dict[str, Head] = {}
    """Of the copies that are fenced."""
    source: str = ""
    """Whose copy is on its way here."""
    piece: tuple[Head, int] | None = None
    """Of that copy, which piece is next; None when the last of them is being written."""
    asked: Instant = Instant(0)
    tries: int = 0
    """How often it was asked for this piece, which may be large."""
    fenced: bool = False
    """Whether this node's own fence is flushed."""
    standing: tuple[int, str, tuple[Head, int] | None] | None = None
    """How far it has come: how many are fenced, and which piece is next of whose copy."""
    since: Instant = Instant(0)
    """Since when it stands there."""
    hurt: dict[str, None] = {}
    """Those that can't be read."""
    unsure: dict[str, None] = {}
    """Those that may lack what they told."""
    anew: bool = False
    """Whether this run has not led it before."""

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
        return home.keepers if lost else home.before

    def silent(self, now: Instant) -> str:
        """For whom it waits too long; nobody, while it goes on (rule 5)."""
        standing = len(self.heads), self.source, self.piece
        if standing != self.standing:
            self.standing, self.since = standing, now
        if later(self.since, SILENT_MAX) > now or (self.source and self.piece is None):
            return ""
        away = [one for one in self.home.before if one not in self.heads and one not in self.hurt]
        return self.source or next(iter(away), "")

    def unheard(self, own: str, gone: Collection[str]) -> list[str]:
        """Who has not answered yet."""
        named = dict.fromkeys((*self._source(gone), own))
        return [one for one in named if one not in self.heads and one not in self.hurt]
