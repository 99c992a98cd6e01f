"""Figures 2 to 9 of the paper: what is simulated for each, and where the models' lines run.

Unless a figure says otherwise: 100 producers with 5 buffers that make an object in 100 ticks,
consumers that use one in 100 ticks, messages of one tick; 50 to 200 consumers are the load.

Figure 4's caption speaks of p(f), its text of p_mt; so it has two panels. Figure 6 has production
times between 50 and 100, whose mean is 75 and not 1/lambda = 100: the same consumers are then loads
of 37.5 to 150 %, and none is near 100 %, where the times matter most. So it has two panels as well:
the times as they are printed, beside the model for either mean; and the same distribution stretched
round 100, so that only the variance differs from figure 3. Figure 9 has the throughput beside the
wait, for the paper says that performance hardly changes, and not which.
"""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, Final

import msgspec

from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool.figures.plan import Curve, Figure, Measure, Panel, Point
from snowmelt_lab.pool.grid import seeded
from snowmelt_lab.pool.options import PoolOptions, Times, groups_of

HOPS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
CONSUMERS: Final = (50, 100, 150, 200)
BUFFERS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20)
FAN_OUTS: Final = (1, 2, 3, 4, 5, 7, 10, 20, 50, 100)
KINDS: Final = {
    "67 % by a half": ("50:2,50:1", 2 / 3),
    "50 % by a tenth": ("10:9,90:1", 1 / 2),
}
"""The paper's fast and slow producers, and what the fast ones make of all objects."""
SHARES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 2 / 3, 0.7, 0.8, 0.9)
PRINTED_MEAN: Final = 75.0
ACROSS_HOPS: Final = "most probes of a request, h_max"
LIMITS: Final = (2.0, 50.0, 100.0)

Made = Callable[[float], PoolOptions]
"""An experiment from its place to the right."""


class Paper:
    """The figures for runs of one length, with seeds drawn from one seed."""

    def __init__(self, common: PoolOptions, seed: int) -> None:
        self._common = common
        self._seed = seed

    def figures(self) -> list[Figure]:
        return [
            self._two(),
            self._three(),
            self._four(),
            self._five(),
            self._six(),
            self._seven(),
            self._eight(),
            self._nine(),
        ]

    def _made(self, **chosen: Any) -> PoolOptions:
        return msgspec.structs.replace(self._common, **chosen)

    def _curve(self, label: str, made: Made, across: Iterable[float], fine: int = 1) -> Curve:
        """Dots at each place, and a line that is computed there, and between if `fine` says so."""
        places = list(across)
        return Curve(
            label=label,
            dots=tuple(Point(x, seeded(made(x), self._seed)) for x in places),
            line=tuple(Point(x, made(x)) for x in finer(places, fine)),
        )

    def _by_load(self, made: Callable[..., PoolOptions], across: Iterable[int]) -> Any:
        places = list(across)

        def at(consumers: int) -> Made:
            return lambda x: made(consumers, int(x))

        return tuple(
            self._curve(f"{load_of(made(number, 1)):g} %", at(number), places)
            for number in CONSUMERS
        )

    def _hops_panel(self, measure: Measure, **how: Any) -> Panel:
        def made(consumers: int, hops: int) -> PoolOptions:
            return self._made(consumers=consumers, max_hops=hops)

        return Panel(
            measure=measure,
            across=ACROSS_HOPS,
            key="load",
            curves=self._by_load(made, HOPS),
            ticks=HOPS,
            **how,
        )

    def _two(self) -> Figure:
        title = "Up to a load of 100 % fewer than two probes find an object"
        return Figure(2, title, (self._hops_panel(Measure.PROBES),))

    def _three(self) -> Figure:
        title = "Three probes bring the wait near its limit, except at 100 %"
        panel = self._hops_panel(Measure.WAIT, up_log=True, marks=LIMITS)
        return Figure(3, title, (panel,))

    def _four(self) -> Figure:
        title = "A third probe frees nearly all producers that can be freed"
        panels = self._hops_panel(Measure.HELD_UP), self._hops_panel(Measure.EMPTY)
        return Figure(4, title, panels)

    def _five(self) -> Figure:
        def made(consumers: int, buffers: int) -> PoolOptions:
            return self._made(consumers=consumers, buffers=buffers, max_hops=5)

        panel = Panel(
            measure=Measure.HELD_UP,
            across="buffers of a producer, f",
            key="load",
            curves=self._by_load(made, BUFFERS),
            ticks=BUFFERS,
            across_log=True,
        )
        return Figure(5, "Five buffers give most of what buffers can give", (panel,))

    def _six(self) -> Figure:
        title = "Even times to make objects shorten the wait, most where the load is 100 %"
        uniform = Times.UNIFORM

        def printed(consumers: int, hops: int) -> PoolOptions:
            rate = 1 / PRINTED_MEAN
            return self._made(consumers=consumers, max_hops=hops, times=uniform, produce_rate=rate)

        def stretched(consumers: int, hops: int) -> PoolOptions:
            return self._made(consumers=consumers, max_hops=hops, times=uniform)

        common: Any = {"measure": Measure.WAIT, "across": ACROSS_HOPS, "key": "load"}
        common |= {"ticks": HOPS, "up_log": True}
        as_printed = [
            msgspec.structs.replace(curve, dashed=slower(curve.line, self._common.produce_rate))
            for curve in self._by_load(printed, HOPS)
        ]
        return Figure(
            6,
            title,
            (
                Panel(
                    name="As printed: 50 to 100 ticks, mean 75",
                    curves=tuple(as_printed),
                    dashed="model, 1/λ = 100",
                    **common,
                ),
                Panel(
                    name="The same round a mean of 100: 67 to 133",
                    curves=self._by_load(stretched, HOPS),
                    **common,
                ),
            ),
        )

    def _seven(self) -> Figure:
        title = "Ten probes do not make up for very unequal producers"

        def at(groups: str) -> Made:
            return lambda x: self._made(groups=groups_of(groups), max_hops=int(x))

        panel = Panel(
            measure=Measure.WAIT,
            across=ACROSS_HOPS,
            key="objects made by\nfast producers",
            curves=tuple(
                self._curve(label, at(groups), HOPS) for label, (groups, _) in KINDS.items()
            ),
            ticks=HOPS,
            up_log=True,
        )
        return Figure(7, title, (panel,))

    def _eight(self) -> Figure:
        title = "The wait is least when requests go where objects are made"

        def at(groups: str) -> Made:
            def made(share: float) -> PoolOptions:
                return self._made(
                    groups=groups_of(groups),
                    access=AccessKind.WEIGHTED,
                    shares=(share, 1 - share),
                )

            return made

        panel = Panel(
            measure=Measure.WAIT,
            across="share of requests to the fast producers, frac_hi",
            key="objects made by\nfast producers",
            curves=tuple(
                self._curve(label, at(groups), SHARES, fine=4)
                for label, (groups, _) in KINDS.items()
            ),
            up_log=True,
        )
        return Figure(8, title, (panel,))

    def _nine(self) -> Figure:
        title = "Knowing few producers costs little throughput, but a good part more wait"

        def at(hops: int) -> Made:
            def made(known: float) -> PoolOptions:
                everybody = known == self._common.producers
                return self._made(max_hops=hops, fan_out=0 if everybody else int(known))

            return made

        curves = tuple(self._curve(str(hops), at(hops), FAN_OUTS) for hops in (1, 2, 3, 5))
        common: Any = {"across": "producers that a consumer knows, M_j", "key": "h_max"}
        common |= {"curves": curves, "ticks": FAN_OUTS, "across_log": True}
        wait = Panel(measure=Measure.WAIT, up_log=True, **common)
        return Figure(9, title, (wait, Panel(measure=Measure.THROUGHPUT, bottom=0.6, **common)))


def load_of(options: PoolOptions) -> float:
    """The load in percent, without the noise of a division.

    >>> load_of(PoolOptions(consumers=150, produce_rate=1 / 75))
    112.5
    """
    return round(100 * options.load, 6)


def slower(line: Iterable[Point], rate: float) -> tuple[Point, ...]:
    """The same points with another rate to make objects."""
    return tuple(
        Point(point.x, msgspec.structs.replace(point.options, produce_rate=rate)) for point in line
    )


def finer(places: list[float], times: int) -> list[float]:
    """The places, and `times - 1` evenly between each two.

    >>> finer([0, 1, 3], 2)
    [0.0, 0.5, 1.0, 2.0, 3]
    """
    steps = [
        low + (high - low) * step / times for low, high in pairwise(places) for step in range(times)
    ]
    return [*steps, places[-1]]
