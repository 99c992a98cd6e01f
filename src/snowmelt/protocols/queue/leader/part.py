"""What each part of a leader has, and may use as it likes: they are parts of one machine."""

from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.outbox import Outbox
from snowmelt.protocols.queue.replication.log import Log
from snowmelt.protocols.queue.state.state import QueueState

Own = tuple[Outbox, Assignment, QueueState, Log]


class LeaderPart:
    """Of one queue, in one term."""

    def __init__(self, own: Own) -> None:
        self._outbox, self._home, self._state, self._log = own
