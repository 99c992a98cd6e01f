"""What came of a figure's points: simulated and computed, side by side."""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from snowmelt_lab.pool.figures.plan import Curve, Figure, Measure, Panel, Point
from snowmelt_lab.pool.options import PoolOptions
from snowmelt_lab.pool.runs import Row, modelled_by


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One point of a figure. Shares are shares here, not percent."""

    figure: int
    panel: str
    measure: str
    curve: str
    x: float
    options: PoolOptions
    simulated: float | None
    """None where only the model's line runs."""
    ci95: float | None
    """Half the width of the interval; None where none is known."""
    modelled: float | None
    difference: float | None
    """How much the model says more, as a share of what is simulated."""
    objects: int | None
    converged: bool | None


class Results:
    """The rows of all points, and what the model says of any."""

    def __init__(
        self,
        rows: Iterable[tuple[PoolOptions, Row]],
        modelled: Callable[[PoolOptions], Row] = modelled_by,
    ) -> None:
        self._rows = dict(rows)
        self._modelled = modelled
        self._answers = {
            _plain(options): {
                name.removeprefix("model_"): value
                for name, value in row.items()
                if name.startswith("model_")
            }
            for options, row in self._rows.items()
        }

    def simulated(self, point: Point, measure: Measure) -> tuple[float, float | None]:
        """What was measured, and half its interval."""
        row = self._rows[point.options]
        return row[measure.value], row["ci95"].get(measure.value)

    def modelled(self, point: Point, measure: Measure) -> float | None:
        """What the model says; None when it says nothing."""
        return self._answer(point.options).get(measure.value)

    def of(self, figure: Figure) -> Iterator[Result]:
        for panel in figure.panels:
            for curve in panel.curves:
                yield from self._of_curve(figure, panel, curve)

    def _of_curve(self, figure: Figure, panel: Panel, curve: Curve) -> Iterator[Result]:
        dots = {dot.x: dot for dot in curve.dots}
        named = (figure.number, panel, curve.label)
        yield from (self._result(*named, dot, simulated=True) for dot in curve.dots)
        between = (point for point in curve.line if point.x not in dots)
        yield from (self._result(*named, point, simulated=False) for point in between)
        other = f"{curve.label}, {panel.dashed}"
        for point in curve.dashed:
            yield self._result(figure.number, panel, other, point, simulated=False)

    def _result(
        self, figure: int, panel: Panel, curve: str, point: Point, *, simulated: bool
    ) -> Result:
        measure = panel.measure
        value, ci95 = self.simulated(point, measure) if simulated else (None, None)
        modelled = self.modelled(point, measure)
        return Result(
            figure=figure,
            panel=panel.name,
            measure=measure.value,
            curve=curve,
            x=point.x,
            options=point.options,
            simulated=value,
            ci95=ci95,
            modelled=modelled,
            difference=modelled / value - 1 if modelled is not None and value else None,
            objects=self._rows[point.options]["objects"] if simulated else None,
            converged=self._answer(point.options).get("converged"),
        )

    def _answer(self, options: PoolOptions) -> Row:
        plain = _plain(options)
        if plain not in self._answers:
            self._answers[plain] = self._modelled(plain)
        return self._answers[plain]


def _plain(options: PoolOptions) -> PoolOptions:
    """The model has no dice."""
    return msgspec.structs.replace(options, seed=0)
