"""Producers and consumers of several kinds agree: the equations of section 4.3, by kinds.

Unknown are, for each kind of producer, the rate of probes while nobody stands in its line, and the
chance p_b that a probe which finds nothing there was its request's last. With them each producer j
is a chain: e_j, the chance that a probe finds nothing, a_j, the probes that come, and b_j, how long
who waits there waits. Then, for a consumer i that probes producer j with the chance P_ij,

    q_i = sum over j of P_ij e_j                                    (equation 15)
    B_i = q_i^(h_max - 1) times the sum over j of P_ij e_j b_j      (17 and 18)
    y_i = h_i / (1/mu + (h_i + 1) r + B_i)                          (13)

and for a producer again

    a_j = sum over i of P_ij y_i                                    (14, whose left index is j)
    p_b,j = sum over i of P_ij y_i p_b,i, over a_j                  (16)

which has to be what was begun with.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.pool.models.chain import EVERYBODY, LEAST, Array, Chain, Setting, solved
from snowmelt_lab.pool.models.mixing import fixed_point
from snowmelt_lab.pool.models.modelled import Consumers, Modelled, Producers, modelled
from snowmelt_lab.pool.models.requests import SURE, Requests, hop_times, requests
from snowmelt_lab.pool.options import PoolOptions


@dataclass(frozen=True)
class Sides:
    """Who knows whom. One entry a kind of producer, or of consumer."""

    producers: Array
    """How many there are of each kind."""
    rates: Array
    askers: Array
    """How many consumers may ask a producer of the kind."""
    consumers: Array
    """How many there are of each kind."""
    lists: NDArray[np.int64]
    """For each kind of consumer, the kinds of producers that it knows."""
    parts: Array
    """The part of its probes that goes to all producers of these kinds: P."""
    overlap: float = 1.0
    """The part of the other producers that who knows one knows too."""


@dataclass(frozen=True)
class _Asking:
    """What consumers do, one entry a consumer."""

    fared: Requests
    wait: Array
    probes: Array
    """y: probes a tick."""


class Agreement:
    """The equations, as a map of what is unknown at each producer, in logarithms."""

    def __init__(self, options: PoolOptions, sides: Sides) -> None:
        self._options = options
        self._sides = sides
        self._populations = np.full(len(sides.rates), EVERYBODY)

    def solved(self) -> Modelled:
        """The answer: found by equation 4, and then with the populations that this tells."""
        sides = self._sides
        many = self._point(self._starts())
        self._populations = self._populations_at(many)
        point = self._point([many, *self._starts()])
        setting, log_rate = self._setting(point)
        asking = self._asking(setting, solved(setting, log_rate))
        return modelled(
            self._options,
            Producers(sides.producers, setting, log_rate),
            Consumers(sides.consumers, asking.fared, asking.wait),
            hold=self._holds(point),
        )

    def _point(self, starts: list[Array]) -> Array:
        """Where the map stays, from the first start that leads there."""
        for start in starts:
            point = fixed_point(self._map, start)
            if self._holds(point):
                break
        return point

    def _holds(self, point: Array) -> bool:
        return bool(np.max(np.abs(self._map(point) - point)) <= SURE)

    def _starts(self) -> list[Array]:
        """Requests find objects at once, but no more than are made; or half do; or hardly one."""
        options, sides = self._options, self._sides
        eager = 1 / (1 / options.consume_rate + 2 * options.transit)
        asked = self._at_producers(np.full(len(sides.consumers), eager))
        log_rate = np.log(np.minimum(asked, sides.rates))
        seldom = np.concatenate([log_rate, np.full(len(sides.rates), -1.0)])
        _, log_blocks = np.split(self._map(seldom), 2)
        starts = [np.concatenate([log_rate, log_blocks])]
        for above, empty in ((0.0, 0.5), (1.0, 0.97)):
            blocks = requests(np.full(len(sides.rates), empty), options.max_hops).blocks
            starts.append(np.concatenate([np.log(sides.rates) + above, np.log(blocks)]))
        return starts

    def _populations_at(self, point: Array) -> Array:
        """P of each kind of producer: see `docs/research/pool-model.md`."""
        sides, chain = self._sides, solved(*self._setting(point))
        apart = chain.spread - chain.line
        others = np.maximum(0.0, sides.producers @ apart - apart)
        return sides.askers * (1 + sides.overlap * others / self._options.consumers)

    def _map(self, point: Array) -> Array:
        setting, log_rate = self._setting(point)
        chain = solved(setting, log_rate)
        asking = self._asking(setting, chain)
        asked = self._at_producers(asking.probes)
        blocks = self._at_producers(asking.probes * asking.fared.blocks) / asked
        return np.concatenate([log_rate + np.log(asked / chain.asked), np.log(blocks)])

    def _setting(self, point: Array) -> tuple[Setting, Array]:
        log_rate, log_blocks = np.split(point, 2)
        blocks = np.exp(np.minimum(log_blocks, 0.0))
        sides, buffers = self._sides, self._options.buffers
        return Setting(sides.rates, blocks, sides.askers, self._populations, buffers), log_rate

    def _asking(self, setting: Setting, chain: Chain) -> _Asking:
        options = self._options
        fared = requests(self._at_consumers(chain.empty), options.max_hops)
        who_wait = np.maximum(chain.asked * chain.empty * setting.blocks, LEAST)
        last = fared.blocks * fared.hops
        in_line = last * self._at_consumers(chain.empty * chain.line / who_wait)
        hop = self._at_consumers(hop_times(options, chain.asked))
        wait = fared.hops * hop + options.transit + in_line
        return _Asking(fared, wait, fared.hops / (1 / options.consume_rate + wait))

    def _at_consumers(self, of_producers: Array) -> Array:
        """What a probe of each consumer meets on average."""
        met: Array = (self._sides.parts * of_producers[self._sides.lists]).sum(axis=1)
        return met

    def _at_producers(self, of_consumers: Array) -> Array:
        """What comes to each producer of what each consumer does."""
        sides = self._sides
        parts = sides.parts * (sides.consumers * of_consumers)[:, None]
        whole = np.bincount(sides.lists.ravel(), parts.ravel(), minlength=len(sides.rates))
        each: Array = whole / sides.producers
        return each
