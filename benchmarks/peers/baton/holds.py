"""What the logs of all waiters say together: how the lock went from one to the next.

Some locks go back to the one that has just given them up, though others wait. So there are two
times. *Free* is from the beginning of a release to the next grant, whoever gets it: how long nobody
has the lock. *Hand-over* is from the first release of somebody, after whatever many grants in a
row, to the grant of somebody else: how long it takes until another has it. They are the same where
the lock goes on with each release.

Where it does not, hand-overs come in swarms, when many happen to look at the right moment, with
long whiles between them in which one keeps it. The median tells of the swarms, and the mean of the
whiles.
"""

from collections import Counter
from itertools import groupby, pairwise
from typing import NamedTuple

from benchmarks.peers.baton.clients import Messages
from benchmarks.peers.comparison import Figures, TurnFailed


class Held(NamedTuple):
    """Somebody had the lock."""

    granted: int
    given_up: int
    """When the giving up began, in nanoseconds as the grant is."""
    waiter: int


def in_order(logs: list[list[Held]]) -> list[Held]:
    """All of them by time; raises `TurnFailed` when two had the lock at once.

    >>> in_order([[Held(0, 5, 1)], [Held(4, 9, 2)]])
    Traceback (most recent call last):
    benchmarks.peers.comparison.TurnFailed: two had the lock at once, 1 times in 2 grants
    """
    holds = sorted(held for log in logs for held in log)
    both = sum(later.granted < earlier.given_up for earlier, later in pairwise(holds))
    if both:
        raise TurnFailed(f"two had the lock at once, {both} times in {len(holds)} grants")
    return holds


def figures(holds: list[Held], begin: int, end: int, waiters: int, sent: Messages) -> Figures:
    """The figures of one turn: times from what was in the window, messages from all there was."""
    window = [held for held in holds if begin <= held.granted < end]
    passed, free = hand_overs(window), frees(window)
    if not passed:
        raise TurnFailed("the lock never went from one to another")
    seconds = (end - begin) / 1e9
    turns = Counter(held.waiter for held in window)
    changes = len(list(groupby(holds, key=lambda held: held.waiter))) - 1
    return {
        "hand_over_p50_us": share(passed, 0.5),
        "hand_over_mean_us": sum(passed) / len(passed) / 1000,
        "hand_over_p99_us": share(passed, 0.99),
        "hand_overs_per_second": len(passed) / seconds,
        "free_p50_us": share(free, 0.5),
        "free_p99_us": share(free, 0.99),
        "grants_per_second": len(window) / seconds,
        "turns_least": min(turns[waiter] for waiter in range(waiters)),
        "turns_most": max(turns.values()),
        "messages_per_hand_over": sum(sent) / changes,
        "messages_per_grant": sum(sent) / len(holds),
        "between_servers_per_grant": sent.servers / len(holds),
    }


def frees(holds: list[Held]) -> list[int]:
    """How many nanoseconds nobody had it, each time.

    >>> frees([Held(0, 5, 1), Held(7, 9, 1), Held(12, 20, 2)])
    [2, 3]
    """
    return [later.granted - earlier.given_up for earlier, later in pairwise(holds)]


def hand_overs(holds: list[Held]) -> list[int]:
    """How many nanoseconds after the first release by one another had it, each time.

    >>> hand_overs([Held(0, 5, 1), Held(7, 9, 1), Held(12, 20, 2)])
    [7]
    """
    first = [next(one) for _, one in groupby(holds, key=lambda held: held.waiter)]
    return [later.granted - earlier.given_up for earlier, later in pairwise(first)]


def share(times: list[int], part: float) -> float:
    """The time, in microseconds, that this part of all is not above.

    >>> share([3_000, 1_000, 2_000], 0.5)
    2.0
    """
    return sorted(times)[int(len(times) * part)] / 1000
