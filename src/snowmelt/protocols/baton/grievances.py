"""What places that wait too long say, and to whom: rules 6 and 10."""

from collections.abc import Sequence
from typing import Any, Final

from snowmelt.core.instant import Duration, Instant
from snowmelt.core.node import Effect, Send
from snowmelt.protocols.baton.here import Here
from snowmelt.protocols.baton.messages import Apart, Complaint, Doubt
from snowmelt.protocols.baton.turns import Turn

PATIENT_BEATS: Final = 8
"""A place that has one before it says nothing sooner."""
DOUBTS_AT_ONCE: Final = 100
"""So many ask on one beat; others have their turn on the next."""


class Grievances:
    """Those of one name at one node."""

    def __init__(self, name: str, here: Here) -> None:
        self._name = name
        self._here = here
        self._complained = Instant(0)

    def say(self, waiting: Sequence[Turn], now: Instant) -> list[Effect[Any]]:
        """What is to be said on this beat, of turns for which the token is not here."""
        return [*self._doubts(waiting, now), *self._complaints(waiting, now)]

    def complaint(self, turn: Turn, *, orphan: bool) -> Send[Any]:
        """To the root."""
        return Send(self._here.root, Complaint(self._name, turn.place, orphan))

    def _doubts(self, waiting: Sequence[Turn], now: Instant) -> list[Effect[Any]]:
        """Asks the one before; where there is none for long, sends the one behind to ask anew."""
        effects: list[Effect[Any]] = []
        for turn in waiting:
            if len(effects) == DOUBTS_AT_ONCE:
                break
            if now - max(turn.since, turn.doubted) < self._patience:
                continue
            if turn.before is not None and (turn.ticket is not None or turn.behind is not None):
                turn.doubted = now
                word = Doubt(self._name, turn.place, turn.before)
                effects.append(Send(turn.before.node, word))
            elif turn.before is None and turn.behind is not None:
                turn.doubted = now
                apart = Apart(self._name, turn.behind, turn.place)
                effects.append(Send(turn.behind.node, apart))
        return effects

    def _complaints(self, waiting: Sequence[Turn], now: Instant) -> list[Effect[Any]]:
        """One a beat, of an orphan if there is one."""
        for turn in waiting:
            if turn.orphan(now, self._here.settings.beat):
                return [self.complaint(turn, orphan=True)]
        if now - self._complained < self._patience:
            return []
        for turn in waiting:
            if turn.ticket is not None and now - turn.since >= self._patience:
                self._complained = now
                return [self.complaint(turn, orphan=False)]
        return []

    @property
    def _patience(self) -> Duration:
        return Duration(PATIENT_BEATS * self._here.settings.beat)
