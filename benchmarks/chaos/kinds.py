"""What may be done to processes of a pool, or of batons, and what of it can be done here."""

from collections.abc import Iterable
from enum import StrEnum

from benchmarks.chaos import links
from benchmarks.chaos.frame import say


class Kind(StrEnum):
    """The kinds."""

    KILL = "kill"
    """Processes are killed, and start again."""
    STOP = "stop"
    """They stand still for longer than a lease, and go on."""
    FORK = "fork"
    """They fork now and then, and the child touches what is its parent's."""
    SLOW = "slow"
    """What goes to some of them, and what they send, is slow for a while."""
    LIMITS = "limits"
    """There is little room for what is on its way, and much is asked for at once."""


def possible(text: str, offered: Iterable[Kind]) -> frozenset[Kind]:
    """Which of those that were asked for can be done here."""
    wanted = frozenset(map(Kind, filter(None, text.split(","))))
    if unknown := wanted - {*offered}:
        raise ValueError(f"there is no {', '.join(sorted(unknown))} here")
    if Kind.SLOW in wanted and not links.can_slow():
        say("left out, since it needs root and Linux with its tc: slow")
        return wanted - {Kind.SLOW}
    return wanted
