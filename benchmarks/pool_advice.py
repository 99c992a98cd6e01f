"""Is the advice of `snowmelt advise` good? Six situations, each beside a sweep of simulations.

    python benchmarks/pool_advice.py [--objects 100000] [--only NAME] [--json]

For each situation the advised setting is simulated, and beside it all settings of a grid round it:
buffers, hops, fan-out and access. All by the compiled kernel, with all that is advised left to
`advise` as it is. Told are

- the throughput of the advice beside the highest of the sweep, which is to be within 3 %;
- its wait beside the shortest of all settings in the sweep that cost no more than it, by the price
  that `snowmelt_lab.pool.advice` states; it is to be within a tenth and one transit.

What stands out among so many runs does so by luck, too. So these three are simulated again, by
other dice and five times as long, and that is what is told. It ends with 1 when a bar is missed.
"""

import argparse
import json
import sys
from itertools import product
from time import perf_counter
from typing import Final

import msgspec
from rich.console import Console
from rich.progress import track

from snowmelt.protocols.pool.settings import AccessKind
from snowmelt_lab.pool.advice import Outcome, advise, judges, outcome, price
from snowmelt_lab.pool.kernel import run
from snowmelt_lab.pool.options import groups_of
from snowmelt_lab.pool.situation import Setting, Situation

BEHIND: Final = 0.97
LONGER: Final = 1.1
AGAIN: Final = 5
BUFFERS: Final = (1, 2, 4, 7, 12, 25, 50)
HOPS: Final = (1, 2, 3, 5, 8)

SITUATIONS: Final = {
    "cameras": Situation(producers=200, consumers=150, produce_rate=40, consume_rate=50),
    "tasks": Situation(
        producers=50, consumers=60, produce_rate=400, consume_rate=400, object_bytes=200
    ),
    "slow users": Situation(
        producers=20, consumers=300, produce_rate=5, consume_rate=0.2, object_bytes=4_000_000
    ),
    "few fast": Situation(
        producers=100,
        consumers=100,
        produce_rate=10,
        consume_rate=10,
        object_bytes=64_000,
        groups=groups_of("10:9,90:1"),
    ),
    "few processes": Situation(
        producers=3, consumers=4, produce_rate=20, consume_rate=20, object_bytes=10_000_000
    ),
    "links": Situation(
        producers=2000,
        consumers=1500,
        produce_rate=1,
        consume_rate=1.5,
        object_bytes=256_000,
        links=50,
    ),
}


class Beside(msgspec.Struct, frozen=True):
    """One situation: what was advised, and what the sweep found."""

    name: str
    setting: Setting
    advised: Outcome
    best_setting: Setting
    best: Outcome
    quickest_setting: Setting
    quickest: Outcome
    """The shortest wait of all that cost no more."""
    throughput_ratio: float
    wait_ratio: float
    holds: bool
    runs: int
    seconds: float


def simulated(
    situation: Situation, setting: Setting, objects: int, seed: int = 1
) -> tuple[Outcome, float]:
    """How a setting fares, and its price."""
    fares = run(situation.options(setting, objects, seed))
    return outcome(situation, setting, fares), price(situation, setting, fares)


def swept(situation: Situation, advised: Setting) -> list[Setting]:
    """The grid."""
    producers, most = situation.producers, situation.links or situation.producers
    widths = {min(most, one) for one in (4, 10, 30, most)} | {advised.fan_out or most}
    least = -(-producers // situation.consumers)
    accesses = [AccessKind.UNIFORM, *([AccessKind.ADAPTIVE] if situation.uneven else [])]
    return [
        Setting(
            buffers=buffers,
            max_hops=hops,
            fan_out=0 if width >= producers else width,
            access=access,
        )
        for buffers, hops, width, access in product(BUFFERS, HOPS, sorted(widths), accesses)
        if buffers <= situation.buffers_most and width >= least and hops <= width
    ]


def beside(name: str, situation: Situation, objects: int) -> Beside:
    """The advice, and the sweep."""
    begin = perf_counter()
    setting = advise(situation, judges()).setting
    advised, cost = simulated(situation, setting, objects)
    settings = swept(situation, setting)
    shown = track(settings, name, console=Console(stderr=True), transient=True)
    found = [(one, *simulated(situation, one, objects)) for one in shown]
    best_setting = max(found, key=lambda one: one[1].throughput)[0]
    links = advised.links_all
    as_cheap = [one for one in found if one[2] <= cost and one[1].links_all <= links]
    as_cheap.append((setting, advised, cost))
    quickest_setting = min(as_cheap, key=lambda one: one[1].wait)[0]
    advised, best, quickest = (
        simulated(situation, one, AGAIN * objects, seed=2)[0]
        for one in (setting, best_setting, quickest_setting)
    )
    ratio = advised.throughput / best.throughput
    return Beside(
        name=name,
        setting=setting,
        advised=advised,
        best_setting=best_setting,
        best=best,
        quickest_setting=quickest_setting,
        quickest=quickest,
        throughput_ratio=ratio,
        wait_ratio=advised.wait / quickest.wait,
        holds=ratio >= BEHIND and advised.wait <= LONGER * quickest.wait + situation.transit,
        runs=len(settings),
        seconds=perf_counter() - begin,
    )


def told(one: Beside) -> None:
    """Some lines for a person."""
    print(f"{one.name}: {one.runs} runs in {one.seconds:.0f} s, {'good' if one.holds else 'BAD'}")
    for name, setting, fares in (
        ("advised", one.setting, one.advised),
        ("best of the sweep", one.best_setting, one.best),
        ("quickest as cheap", one.quickest_setting, one.quickest),
    ):
        print(
            f"  {name:<18} {setting.buffers:3} buffers {setting.max_hops:2} hops"
            f" {setting.fan_out or 'all':>4} known {setting.access.value:<8}"
            f" {fares.throughput:10,.5g} a second, wait {fares.wait * 1000:9,.4g} ms"
        )
    print(f"  throughput {one.throughput_ratio:.3f}, wait {one.wait_ratio:.2f} of these")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--objects", type=int, default=100_000, help="of each run")
    parser.add_argument("--only", choices=SITUATIONS, help="one situation")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    names = [given.only] if given.only else list(SITUATIONS)
    results = []
    for name in names:
        results.append(beside(name, SITUATIONS[name], given.objects))
        if not given.json:
            told(results[-1])
    if given.json:
        print(json.dumps(msgspec.to_builtins(results)))
    return 0 if all(one.holds for one in results) else 1


if __name__ == "__main__":
    sys.exit(main())
