"""The paper's model acted out with dice, item by item: a check of the formula. Needs numpy.

Nothing of `windows`' formula is used: nodes get times of failure, and an item is lost when all its
times fall into one window. What makes millions of items over days cheap: an item can only be lost
in a window in which its first copy fails, and what the other copies do elsewhere is forgotten at
the window's end. So the dice jump from one failure of the first copy to the next.
"""

from statistics import NormalDist

import msgspec
import numpy as np

from snowmelt.core.errors import BadOption
from snowmelt_lab.durability.windows import Windows, span_of

TRIALS_MAX = 10_000_000
CONFIDENCE = 0.99
DRAWS_MAX = 2_000_000_000


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """So many items were acted out, so many were lost; the chance lies between `low` and `high`."""

    trials: int
    seed: int
    lost: int
    loss: float
    low: float
    high: float
    confidence: float = CONFIDENCE


def tried(model: Windows, hours: float, trials: int, seed: int) -> Trial:
    """Acts out so many items for so many hours.

    >>> model = Windows(fail_per_second=0.01, window=20, replicas=3)
    >>> seen = tried(model, hours=0.6, trials=2000, seed=1)
    >>> seen.low < model.loss(0.6) < seen.high
    True
    """
    span = span_of(hours)
    if not 1 <= trials <= TRIALS_MAX:
        raise BadOption("--trials", trials, f"1 to {TRIALS_MAX}, or 0 for none")
    failures = min(span * model.rate, span / model.window + 1)  # of a first copy, at most
    if trials * failures * model.replicas > DRAWS_MAX:
        allowed = "fewer: this many over this time would take more than a minute"
        raise BadOption("--trials", trials, allowed)
    lost = _lost(model, span, trials, np.random.default_rng(seed))
    low, high = likely(lost, trials)
    return Trial(trials=trials, seed=seed, lost=lost, loss=lost / trials, low=low, high=high)


def _lost(model: Windows, span: float, trials: int, dice: np.random.Generator) -> int:
    if model.rate == 0:
        return 0
    life = 1 / model.rate  # 0 when nodes fail at once
    lost = 0
    now = np.zeros(trials)  # where each item that is left stands, at a window's beginning
    while now.size:
        failed = now + dice.exponential(life, now.size)
        failed = failed[failed < span]
        begin = np.floor(failed / model.window) * model.window
        end = np.minimum(begin + model.window, span)
        others = dice.exponential(life, (model.replicas - 1, failed.size))
        gone = np.all(begin + others < end, axis=0)
        lost += int(gone.sum())
        now = begin[~gone] + model.window
    return lost


def likely(hits: int, trials: int) -> tuple[float, float]:
    """Wilson's interval for a chance, of which so many hits in so many trials are known.

    >>> low, high = likely(0, 1000)
    >>> low, round(high, 4)
    (0.0, 0.0066)
    """
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share = hits / trials
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials)
    half *= (share * (1 - share) / trials + z * z / (4 * trials * trials)) ** 0.5
    return (0.0 if hits == 0 else middle - half), (1.0 if hits == trials else middle + half)
