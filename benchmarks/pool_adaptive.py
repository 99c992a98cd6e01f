"""Adaptive access beside what the paper does when producers differ: a tenth of them makes half.

    python benchmarks/pool_adaptive.py [--objects 200000] [--lives 8] [--figure FILE] [--json]

A hundred producers and a hundred consumers at a load of 100 %, three hops; ten producers are nine
times as fast as the other ninety. The wait of a consumer,

- with uniform access, at three hops and at ten: the paper's figure 7;
- with a share of the probes given to the fast ones, for several shares: its figure 8;
- with adaptive access, which is told nothing and learns the rates;
- over time, when after a while ten of the slow producers become the fast ones and the others slow.

All in the laboratory's calm world (`snowmelt_lab.pool`), with the pool's own machines; times are in
ticks. It ends with 1 when adaptive access waits more than a tenth longer than the best share does,
or does not come back to its wait after the swap.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import track

from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.drawing import INK, RIGHT, WRONG, canvas, save
from snowmelt_lab.pool.machine import World, run
from snowmelt_lab.pool.measures import TICK
from snowmelt_lab.pool.options import PoolOptions, groups_of

BAR = 1.1
SHARES = (0.3, 0.4, 0.5, 0.6, 0.7)
PACE = PoolOptions(groups=groups_of("10:9,90:1"))
WARM_UP = 15_000
BEFORE = 10_000
AFTER = 30_000
"""Ticks round the swap that are looked at."""
STEP = 500
"""Ticks of one point."""
LATER = 20_000
"""Ticks after the swap: what comes later is how it is in the end."""


class Point(msgspec.Struct, frozen=True):
    """One experiment."""

    wait: float
    ci95: float
    probes: float
    throughput: float


class Curve(msgspec.Struct, frozen=True):
    """The wait round the swap, in the mean over some lives."""

    at: list[int]
    """Ticks since the swap."""
    wait: list[float]
    before: float
    right_after: float
    """The highest point."""
    later: float
    back_after: int | None
    """Ticks until the wait is within a quarter of what it was; None when it never is."""


class Result(msgspec.Struct, frozen=True):
    """The run."""

    uniform_3_hops: Point
    uniform_10_hops: Point
    shares: dict[str, Point]
    best_share: float
    adaptive: Point
    ratio: float
    """The wait with adaptive access beside that of the best share."""
    swap_adaptive: Curve
    swap_told: Curve
    """With the best share, told before the swap."""
    bar: float

    @property
    def holds(self) -> bool:
        """Whether both statements do."""
        follows = self.swap_adaptive.later <= BAR * self.swap_adaptive.before
        return self.ratio <= self.bar and follows


def with_share(options: PoolOptions, share: float) -> PoolOptions:
    return msgspec.structs.replace(
        options, access=AccessKind.WEIGHTED, shares=(share, round(1 - share, 9))
    )


def adaptive(options: PoolOptions) -> PoolOptions:
    return msgspec.structs.replace(options, access=AccessKind.ADAPTIVE)


def point(options: PoolOptions) -> Point:
    got = run(options)
    return Point(got.wait_mean, got.wait_ci95 or 0.0, got.hops_mean, got.throughput)


def life(options: PoolOptions, seed: int) -> Iterator[tuple[int, float]]:
    """When each few objects came, in ticks since the swap, and how long they were waited for."""
    world = World(msgspec.structs.replace(options, seed=seed))
    world.consume(WARM_UP)
    swap = world.now + BEFORE * TICK
    swapped = False
    while world.now < swap + AFTER * TICK:
        if not swapped and world.now >= swap:
            world.pace(options.rates[::-1])
            swapped = True
        world.measure_anew()
        world.consume(20)
        yield (world.now - swap) // TICK, mean(world.tally.waits) / TICK


def curve(options: PoolOptions, lives: range) -> Curve:
    sums: dict[int, list[float]] = {}
    for seed in lives:
        for at, wait in life(options, seed):
            sums.setdefault(at // STEP * STEP, []).append(wait)
    steps = [step for step in sorted(sums) if -BEFORE <= step < AFTER]
    waits = [mean(sums[step]) for step in steps]
    before = mean(one for step, one in zip(steps, waits, strict=True) if step < 0)
    later = mean(one for step, one in zip(steps, waits, strict=True) if step >= LATER)
    after = [(step, one) for step, one in zip(steps, waits, strict=True) if step >= 0]
    high = max(after, key=lambda one: one[1])
    back = (step for step, one in after if step > high[0] and one <= 1.25 * before)
    return Curve(steps, waits, before, high[1], later, next(back, None))


def experiments(objects: int, lives: int) -> Iterator[tuple[str, Point | Curve]]:
    """Each by its name."""
    options = msgspec.structs.replace(PACE, objects=objects)
    yield "uniform_3_hops", point(options)
    yield "uniform_10_hops", point(msgspec.structs.replace(options, max_hops=10))
    for share in SHARES:
        yield f"{share:g}", point(with_share(options, share))
    yield "adaptive", point(adaptive(options))
    seeds = range(1, lives + 1)
    yield "swap_adaptive", curve(adaptive(options), seeds)
    yield "swap_told", curve(with_share(options, 0.5), seeds)


def measured(objects: int, lives: int) -> Result:
    console = Console(stderr=True)
    all_of_them = track(
        experiments(objects, lives),
        "",
        len(SHARES) + 5,
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    points: dict[str, Point] = {}
    curves: dict[str, Curve] = {}
    for name, one in all_of_them:
        if isinstance(one, Point):
            points[name] = one
        else:
            curves[name] = one
    shares = {f"{share:g}": points.pop(f"{share:g}") for share in SHARES}
    best = min(SHARES, key=lambda share: shares[f"{share:g}"].wait)
    ratio = points["adaptive"].wait / shares[f"{best:g}"].wait
    rest: dict[str, Any] = {**points, **curves}
    return Result(shares=shares, best_share=best, ratio=ratio, bar=BAR, **rest)


def draw(result: Result, path: Path) -> None:
    title = "Adaptive access comes near the best split by itself, and follows when it changes"
    figure, (split, swap) = canvas(2, title)
    waits = list(result.shares.values())
    split.errorbar(
        SHARES,
        [one.wait for one in waits],
        [one.ci95 for one in waits],
        fmt="o-",
        color=INK,
        capsize=3,
        label="a fixed share, told (95 %)",
    )
    for name, one, color, style in (
        ("uniform, 3 hops (10 % to the fast)", result.uniform_3_hops, WRONG, "-"),
        ("uniform, 10 hops", result.uniform_10_hops, WRONG, "--"),
        ("adaptive, told nothing", result.adaptive, RIGHT, "-"),
    ):
        split.axhline(one.wait, color=color, linestyle=style, label=f"{name}: {one.wait:.1f}")
    split.set_title("Ten of a hundred producers make half of all")
    split.set_xlabel("share of the probes that goes to the fast producers")
    split.set_ylabel("mean wait (ticks)")
    split.set_yscale("log")
    split.set_yticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
    split.set_ylim(5, 400)  # room for the legend
    split.legend(loc="upper right")
    for name, after, color in (
        ("half to the ten that were fast", result.swap_told, WRONG),
        ("adaptive", result.swap_adaptive, RIGHT),
    ):
        ticks = [(at + STEP / 2) / 1000 for at in after.at]
        swap.plot(ticks, after.wait, color=color, linewidth=1.8, label=name)
    swap.axvline(0, color=INK, linewidth=1, linestyle=":")
    swap.set_title("Ten slow producers become the fast ones")
    swap.set_xlabel("thousand ticks since the swap")
    swap.set_ylabel("mean wait (ticks)")
    swap.set_ylim(0, 1.3 * max(*result.swap_told.wait, *result.swap_adaptive.wait))
    swap.legend(loc="upper left")
    save(figure, path)


def told(result: Result) -> None:
    lines = {
        "uniform, 3 hops": result.uniform_3_hops,
        "uniform, 10 hops": result.uniform_10_hops,
        **{f"share {share}": one for share, one in result.shares.items()},
        "adaptive": result.adaptive,
    }
    for name, one in lines.items():
        print(
            f"{name:<18} wait {one.wait:6.2f} +- {one.ci95:.2f}   probes {one.probes:.2f}"
            f"   throughput {one.throughput:.3f}"
        )
    print(f"adaptive beside the best share, {result.best_share:g}: {result.ratio:.2f}")
    for name, after in (("adaptive", result.swap_adaptive), ("told", result.swap_told)):
        back = "never" if after.back_after is None else f"{after.back_after} ticks"
        print(
            f"swap, {name}: before {after.before:.1f}, highest {after.right_after:.1f},"
            f" in the end {after.later:.1f}; back within a quarter after {back}"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--objects", type=int, default=200_000, help="of each point")
    parser.add_argument("--lives", type=int, default=8, help="that the swap is averaged over")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result = measured(given.objects, given.lives)
    if given.figure is not None:
        draw(result, given.figure)
    if given.json:
        print(json.dumps({**msgspec.to_builtins(result), "holds": result.holds}))
    else:
        told(result)
    return 0 if result.holds else 1


if __name__ == "__main__":
    sys.exit(main())
