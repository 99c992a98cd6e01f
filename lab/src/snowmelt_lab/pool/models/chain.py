"""One producer as a Markov chain: equations 2 to 4, in logarithms, for many producers at once.

State s > 0 is s objects in stock, s < 0 is -s requests in line, 0 neither. A producer makes objects
at the rate lambda while s < f. Probes come to it at the rate a while nobody stands in its line, and
at (1 - n / P) a while n do; a probe that finds nothing stays with the chance p_b:

    lambda p(s) = a p(s + 1)                        0 <= s < f
    lambda p(s) = (1 - n / P) a p_b p(s + 1)       -M <= s < 0, with n = -(s + 1)

P is the *population*: by how much the others miss those who stand in line here. With P = M this is
equation 3; with P without limit it is equation 4. What lies between, and why, is in
`docs/research/pool-model.md`. The paper puts the mean rate into equation 3, over all times, and so
counts the waiting twice; here a is the rate while nobody waits.

Since a consumer in line does not probe, a probe does not see the average over time: it sees state s
with the weight (1 - n / P) p(s). All chances that are a probe's, not an observer's, are weighed so,
and what comes in is what goes out to the last digit.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

TAIL: Final = 92.0
"""Twice the logarithm of how much less likely a line is than the likeliest, where lines are cut."""
EVERYBODY: Final = 1e12
"""The population of equation 4."""
LEAST: Final = 1e-300
"""Stands for nothing, where a logarithm is taken."""
SHOWN: Final = 1e-6
"""States with less than this share of the time are not told."""


@dataclass(frozen=True)
class Setting:
    """What a producer is and how requests behave at it; one entry a producer in each."""

    make: Array
    """lambda: objects a tick while it is not held up."""
    blocks: Array
    """p_b: the chance that a probe which finds nothing was its request's last."""
    askers: Array
    """M: how many consumers may ask it."""
    population: Array
    """P, at least M."""
    buffers: int
    """f."""


@dataclass(frozen=True)
class Chain:
    """Producers in equilibrium; one entry a producer."""

    log_odds: Array
    """Of a probe to find nothing."""
    asked: Array
    """Probes that come to it in a tick."""
    line: Array
    """Requests in its line, on average."""
    full: Array
    """The share of time in which it is held up: p(f)."""
    spread: Array
    """How `line` follows the rate a: its change for a relative change of a."""

    @property
    def empty(self) -> Array:
        return expit(self.log_odds)


def expit(log_odds: Array) -> Array:
    """The chance with these odds.

    >>> [round(float(chance), 3) for chance in expit(np.array([-1000.0, 0.0, 1.0]))]
    [0.0, 0.5, 0.731]
    """
    small = np.exp(-np.abs(log_odds))
    return np.where(log_odds < 0, small, 1.0) / (1.0 + small)


def solved(setting: Setting, log_rate: Array) -> Chain:
    """The chain when probes come at this rate while nobody is in line; its logarithm is given.

    >>> one = np.array([1.0])
    >>> chain = solved(Setting(one, one, one, one, buffers=1), np.array([0.0]))
    >>> round(float(chain.full[0]), 6), round(float(chain.line[0]), 6)  # -1, 0, 1 equally often
    (0.333333, 0.333333)
    """
    lengths = _lengths(setting, log_rate)
    line, height = _line(setting, log_rate, lengths)
    total = line.sum(axis=1)
    line /= total[:, None]
    coming = line * _free(setting, lengths)
    waiting, free = line @ lengths, coming.sum(axis=1)

    log_stock, log_top, in_stock = _stock(log_rate - np.log(setting.make), setting.buffers)
    odds_of_time = height + np.log(total) - log_stock
    dry, stocked = expit(odds_of_time), expit(-odds_of_time)
    length, busy = dry * waiting, dry * free + stocked
    return Chain(
        log_odds=odds_of_time + np.log(free),
        asked=np.exp(np.minimum(log_rate + np.log(np.maximum(busy, LEAST)), 600)),
        line=length,
        full=stocked * np.exp(log_top),
        spread=dry * (line @ lengths**2) - length * (length - stocked * in_stock),
    )


def shares_of_time(setting: Setting, log_rate: Array, counts: Array) -> dict[str, float]:
    """How much of the time producers are in each state, over `counts` producers of each kind."""
    lengths = _lengths(setting, log_rate)
    line, height = _line(setting, log_rate, lengths)
    log_load = log_rate - np.log(setting.make)
    with np.errstate(divide="ignore"):
        in_line = np.log(line) + height[:, None]
    in_stock = -np.arange(1, setting.buffers + 1) * log_load[:, None]
    logs = np.concatenate([in_line[:, ::-1], in_stock], axis=1)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    shares *= (counts / counts.sum() / shares.sum(axis=1))[:, None]
    least = 1 - in_line.shape[1]
    every = shares.sum(axis=0)
    return {str(least + at): float(every[at]) for at in np.flatnonzero(every >= SHOWN)}


def _log_first(setting: Setting, log_rate: Array) -> Array:
    """The logarithm of how much likelier one in line is than none."""
    return log_rate + np.log(setting.blocks) - np.log(setting.make)


def _lengths(setting: Setting, log_rate: Array) -> Array:
    """0, 1, … up to where no line is of any weight."""
    log_first = np.clip(_log_first(setting, log_rate), -600, 600)
    width = setting.population * np.exp(-log_first)
    longest = np.maximum(0.0, setting.population - width) + np.sqrt(TAIL * width) + 2
    geometric = np.where(log_first < 0, TAIL / 2 / np.maximum(-log_first, LEAST) + 2, np.inf)
    most = np.minimum(setting.askers, np.minimum(longest, geometric))
    return np.arange(int(most.max()) + 1, dtype=np.float64)


def _free(setting: Setting, lengths: Array) -> Array:
    """1 - n / P, and 0 where everybody is in line."""
    free = (1 - lengths / setting.population[:, None]).clip(0)
    return np.where(lengths < setting.askers[:, None], free, 0.0)


def _line(setting: Setting, log_rate: Array, lengths: Array) -> tuple[Array, Array]:
    """The weights of lines of these lengths, and the logarithm of what they are multiplied with."""
    with np.errstate(divide="ignore"):
        steps = np.log(_free(setting, lengths[:-1]))
    logs = np.zeros((len(log_rate), len(lengths)))
    np.cumsum(steps + _log_first(setting, log_rate)[:, None], axis=1, out=logs[:, 1:])
    height = logs.max(axis=1)
    return np.exp(logs - height[:, None]), height


def _stock(log_load: Array, buffers: int) -> tuple[Array, Array, Array]:
    """Of the weights load**-i, i from 1 to f: log of the sum, log of the last's share, mean i."""
    small = np.where(log_load == 0, -LEAST, -np.abs(log_load))
    with np.errstate(invalid="ignore", divide="ignore"):
        geometric = np.log(np.expm1(buffers * small) / np.expm1(small))
    geometric = np.where(log_load == 0, np.log(buffers), geometric)
    # the largest weight is the first when load > 1, the last otherwise
    log_sum = np.where(log_load > 0, -log_load, -buffers * log_load) + geometric
    slope = np.where(np.abs(log_load) < 1e-4 / buffers, 1e-4 / buffers, log_load)
    exact = (
        1
        + buffers / -np.expm1(np.minimum(buffers * slope, 700))
        + 1 / np.expm1(np.minimum(slope, 700))
    )
    near = (buffers + 1) / 2 - log_load * (buffers**2 - 1) / 12
    mean = np.where(np.abs(log_load) < 1e-4 / buffers, near, exact)
    return log_sum, -buffers * log_load - log_sum, mean
