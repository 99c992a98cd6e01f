"""Which nodes a queue waits for, as a person is told who asks for it meanwhile."""

from snowmelt.core.instant import SECOND, Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.messages.home_words import Assignment, Nowhere
from snowmelt.protocols.queue.streams import Presence, gone_for_ever, node_of


def waits(home: Assignment, presence: Presence, now: Instant) -> Nowhere | None:
    """What to say when too few are here of those who have copies; None when it can go on.

    One that is here goes on with an active home's queue; of one that is not active yet as many
    must answer as may not miss a step, and a disk that is gone is not waited for (`takeover.py`).
    """
    keepers = home.counted if home.active else home.before
    here = [keeper for keeper in keepers if keeper in presence.keepers]
    away = [keeper for keeper in keepers if keeper not in here]
    lost = [keeper for keeper in away if gone_for_ever((keeper,), presence)]
    needed = 1 if home.active else home.answers_needed - len(lost)
    if not away or len(here) >= max(1, needed):
        return None
    whom = " and ".join(_away(node_of(one), presence, now, lost=one in lost) for one in away)
    others = "too few of the others keep" if here else "nobody else keeps"
    text = f"queue {home.queue!r} waits for {whom}: {others} what it has; start what is away"
    return Nowhere(home.queue, "Unavailable", text)


def _away(node: NodeId, presence: Presence, now: Instant, *, lost: bool) -> str:
    if lost:
        return f"the disk that {node} had before"
    since = presence.left.get(node)
    if since is None:
        return f"{node}, away since before the node that was asked began"
    return f"{node}, away for {(now - since) / SECOND:.0f} s"
