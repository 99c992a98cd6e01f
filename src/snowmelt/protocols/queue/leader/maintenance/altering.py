"""A queue's settings are altered while it runs: the controller makes a term that has others.

1. A leader says what they are to be, again and again while it leads. The next term has them, if no
   other is made before; and what was asked of this leader is asked again of the next.
2. Who asks is told so by a leader whose settings are these, when it is sure that it leads.
3. Where more copies must be safe than before, the next term has the other settings but for that.
   When all followers have what their leader has, it asks for a term with that as well. So puts go
   on while copies are made.
4. What was leased before is leased for as long as it was, whatever leases last from then on. What
   is dead stays dead, and what is more than a bound lets in stays in.
5. Who is told so is told before others have their way, which a new term would prevent: they wait
   for a moment. Else two who would have different settings would have terms made for ever.
"""

from typing import Final

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.leader.storing import Storing
from snowmelt.protocols.queue.messages import home_words
from snowmelt.protocols.queue.messages.words import ReplyTo
from snowmelt.protocols.queue.replication.follower_progress import Followers
from snowmelt.protocols.queue.state.state import QueueState

AGAIN_AFTER: Final = milliseconds(500)


class Altering(LeaderPart):
    """Of one queue, in one term."""

    def __init__(self, own: Own, followers: Followers, storing: Storing) -> None:
        super().__init__(own)
        self._followers = followers
        self._storing = storing
        self._wanted: QueueSettings | None = None
        """What the settings are to be; whoever asks for others is heard in the next term."""
        self._asked = Instant(0)
        """When it was said last, or somebody else was told so."""

    def hear(self, operation: OperationId, ask: calls.Alter) -> None:
        """Somebody would have it otherwise (rules 1 and 2)."""
        presence = self._outbox.presence
        try:
            nodes = 0 if presence is None else len(presence.keepers)
            wanted = self._home.asked_for.altered(dict(ask.settings), nodes, ask.weights)
        except BadOption as error:
            self._log.owe(ReplyTo(operation, Declined("BadOption", str(error))))
            return
        if wanted == self._home.asked_for:
            self._log.owe(ReplyTo(operation, calls.Changed(0)))
            if self._wanted is None:
                self._asked = self._outbox.now  # rule 5
        elif self._wanted is None:
            self._wanted = wanted
            self.tick()

    def tick(self) -> None:
        """Says it, and says it again (rule 1)."""
        now, home, here = self._outbox.now, self._home, self._outbox.presence is not None
        if self._wanted is None and home.wanted is not None:
            self._outbox.wake(later(now, AGAIN_AFTER))
            if not (self._followers.lacking or self._storing.short):  # rule 3
                self._wanted = home.wanted
        if self._wanted is None:
            return
        if here and (not self._asked or later(self._asked, AGAIN_AFTER) <= now):
            self._asked = now
            word = home_words.ChangeSettings(home.queue, home.term, home.run, self._wanted)
            self._outbox.to_coordinator(word)
        self._outbox.wake(later(self._asked, AGAIN_AFTER))


def keep_lengths(state: QueueState, lease: Duration) -> None:
    """What was given for so long is held for so long (rule 4)."""
    if lease == state.settings.lease:
        return
    for token, one in state.leases.items():
        if not one.length:
            one.length = lease
            state.touch(token)
