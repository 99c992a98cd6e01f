"""Loss over time, as the paper's figure has it: points for a table and for a picture."""

import msgspec

from snowmelt_lab.durability.chain import continuous_loss
from snowmelt_lab.durability.paper import CLAIMS
from snowmelt_lab.durability.windows import Windows

POINTS = 96


class Curve(msgspec.Struct, frozen=True):
    """Loss over time by both models; with a claim of the paper's where it made one."""

    model: Windows
    hours: tuple[float, ...]
    by_windows: tuple[float, ...]
    continuous: tuple[float, ...]


HEAD = ("fail_per_second", "window", "replicas", "hours", "loss", "loss_continuous")


def curve(model: Windows, hours: float) -> Curve:
    """The loss from now until so many hours from now.

    >>> one = curve(CLAIMS[0].model, 7)
    >>> one.hours[0], one.by_windows[0], one.hours[-1], f"{one.by_windows[-1]:.4f}"
    (0.0, 0.0, 7.0, '0.9995')
    """
    times = tuple(hours * number / POINTS for number in range(POINTS + 1))
    return Curve(
        model,
        times,
        tuple(model.loss(time) for time in times),
        tuple(continuous_loss(model, time) for time in times),
    )


def curves(model: Windows, hours: float) -> list[Curve]:
    """The paper's two curves, and the one asked for when it is neither of them.

    >>> len(curves(CLAIMS[1].model, 48)), len(curves(CLAIMS[1].model, 24))
    (2, 3)
    """
    wanted = [(claim.model, claim.hours) for claim in CLAIMS]
    if (model, hours) not in wanted:
        wanted.append((model, hours))
    return [curve(*one) for one in wanted]


def rows(curves: list[Curve]) -> list[tuple[float, ...]]:
    """A line for each point of each curve, in the order of `HEAD`.

    >>> rows([curve(CLAIMS[0].model, 7)])[0]
    (0.01, 20, 3, 0.0, 0.0, 0.0)
    """
    return [
        (one.model.fail_per_second, one.model.window, one.model.replicas, *point)
        for one in curves
        for point in zip(one.hours, one.by_windows, one.continuous, strict=True)
    ]
