"""The paper's first model, for producers that are all alike (section 4.1), with its errors mended.

A producer is a Markov chain: state s > 0 is so many objects in its buffer, s < 0 so many requests
in its line. Requests come to it at the rate mu_c; an object leaves with each while there are any. A
request that finds none passes on, or waits in line with the chance p_b that this was its last
probe. What is mended:

- Equation 1 and W count a hop for the way back: a request takes W = (h + 1) r + B.
- W counts the wait in line once: B of equation 9 is over all requests already.
- Throughput is T = M mu U_c = N lambda U_p.
- Equation 5: (lambda / mu_c) to the power of s. Here the states are added up one by one, so no
  case needs an exception.

In line, equation 4 is used throughout. Equation 3, by which requests come at (M - s) / M of the
rate while s of them wait, seems the finer one; but mu_c is a mean that has the waiting in it
already, so it counts that twice: by it the two sides of T differ by up to half a percent, and it is
further from what is simulated.

The paper iterates, and does not converge where requests by far outnumber objects. Here the chance
q to find a producer empty is sought by halving: for a given q the chain gives the one rate mu_c at
which it is empty so often, and equation 1 the rate at which consumers that fare so ask. The first
rises with q faster than the second.
"""

from itertools import accumulate
from operator import mul
from typing import Final

import msgspec

HALVINGS: Final = 60


class Modelled(msgspec.Struct, frozen=True):
    """The model's answer, named as `measures.Measured` names what is measured."""

    throughput: float
    wait_mean: float
    hops_mean: float
    producer_blocked: float
    probe_empty: float
    request_blocked: float


class Homogeneous(msgspec.Struct, frozen=True, kw_only=True):
    """Equal producers, equal consumers, uniform access.

    >>> answer = Homogeneous(producers=100, consumers=200).solved()
    >>> round(answer.throughput, 3), round(answer.wait_mean)
    (0.995, 101)
    """

    producers: int
    consumers: int
    buffers: int = 5
    max_hops: int = 3
    produce_rate: float = 0.01
    consume_rate: float = 0.01
    transit: float = 1.0

    def solved(self) -> Modelled:
        """The point at which producers and consumers agree."""
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            empty = (low + high) / 2
            asked = self._rate_at(empty)
            if asked > self._rate_of_consumers(asked, empty):
                high = empty
            else:
                low = empty
        return self._answer(high)

    def _hops(self, empty: float) -> float:
        """Equation 7."""
        return sum(empty**probe for probe in range(self.max_hops))

    def _states(self, asked: float, empty: float) -> tuple[list[float], list[float]]:
        """The chances of states 0, -1, …, -M, and of 0, 1, …, f: equations 2, 4 and 8."""
        blocks = empty ** (self.max_hops - 1) / self._hops(empty)
        down = asked * blocks / self.produce_rate
        up = self.produce_rate / asked
        in_line = list(accumulate([down] * self.consumers, mul, initial=1.0))
        in_stock = list(accumulate([up] * self.buffers, mul, initial=1.0))
        whole = sum(in_line) + sum(in_stock) - 1.0
        return [one / whole for one in in_line], [one / whole for one in in_stock]

    def _rate_at(self, empty: float) -> float:
        """The rate of requests at which a producer is empty so often."""
        low, high = 0.0, 1.0
        while sum(self._states(high, empty)[0]) < empty:
            low, high = high, 2 * high
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if sum(self._states(middle, empty)[0]) < empty:
                low = middle
            else:
                high = middle
        return high

    def _blocked(self, asked: float, empty: float) -> float:
        """B, equation 9: how long a request waits in line, over all requests."""
        in_line = self._states(asked, empty)[0]
        wait = sum((ahead + 1) * chance for ahead, chance in enumerate(in_line[:-1]))
        return empty**self.max_hops * wait / sum(in_line) / self.produce_rate

    def _wait(self, asked: float, empty: float) -> float:
        return (self._hops(empty) + 1) * self.transit + self._blocked(asked, empty)

    def _rate_of_consumers(self, asked: float, empty: float) -> float:
        """Equation 1: the rate at which consumers ask a producer when they fare so."""
        cycle = 1 / self.consume_rate + self._wait(asked, empty)
        return self.consumers / self.producers * self._hops(empty) / cycle

    def _answer(self, empty: float) -> Modelled:
        asked = self._rate_at(empty)
        wait = self._wait(asked, empty)
        full = self._states(asked, empty)[1][-1]
        return Modelled(
            throughput=self.producers * self.produce_rate * (1 - full),
            wait_mean=wait,
            hops_mean=self._hops(empty),
            producer_blocked=full,
            probe_empty=empty,
            request_blocked=empty**self.max_hops,
        )
