"""What more pairs of processes move, when every process has a small machine of its own.

    python benchmarks/pool_scale.py [--pairs 1,2,5,10] [--share 0.05] [--rounds 3] [--seconds 5]
        [--figure FILE] [--json]

Objects of 1 MB go from producers to consumers. Each process, the servers too, has the same share of
one core (`shares.py`), so that ten pairs have ten times the processor time of one, as on ten times
the machines. Redis is there twice: its server on a machine like the others, and on a whole core.
Needs Linux, root, and redis-server (Debian's package).
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from os import getpid
from pathlib import Path
from statistics import median
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.fifo.peer import Missing
from benchmarks.fifo.starting import progress
from benchmarks.pool_peers_parts.cell import LARGE, Cell
from benchmarks.pool_peers_parts.peer import Connect
from benchmarks.pool_peers_parts.redis_lists import RedisPeer
from benchmarks.pool_peers_parts.snowmelt_pool import PoolPeer
from benchmarks.pool_peers_parts.turn import Bounds, TurnFailed, turn
from benchmarks.shares import Shares, Unbounded

from snowmelt.cli.local import end_on_sigterm

WHOLE: Final = 1.0
STEADY_SECONDS: Final = 15.0
"""Slow processes take long to meet."""


@dataclass
class Contender:
    """A peer, its server's share of a core, and what it moved, by pairs and round."""

    title: str
    peer: PoolPeer | RedisPeer
    server_share: float
    moved: dict[int, list[float]] = field(default_factory=dict)

    def rate(self, pairs: int) -> float:
        """Objects a second."""
        return median(self.moved[pairs])

    def scale(self, pairs: int) -> float:
        """How many times what one pair moves."""
        return median(
            many / one for many, one in zip(self.moved[pairs], self.moved[1], strict=True)
        )

    @property
    def server(self) -> int:
        """Its server's process."""
        if isinstance(self.peer, PoolPeer):
            assert self.peer.cluster is not None
            return self.peer.cluster.nodes[0].pid
        assert self.peer.server is not None
        return self.peer.server.pid


def contenders(share: float) -> list[Contender]:
    return [
        Contender("Snowmelt's pool", PoolPeer("snowmelt", "at_least_once"), share),
        Contender("Redis, a server like the others", RedisPeer("redis", "Own"), share),
        Contender("Redis, a server of a whole core", RedisPeer("redis-core", "Own"), WHOLE),
    ]


def bounded(shares: Shares, share: float, connect: Connect) -> Any:
    """In the process of a turn: has its share from here on."""
    shares.bound_me(share)
    return connect()


def measure(
    one: Contender, shares: Shares, share: float, pairs: list[int], seconds: float, folder: Path
) -> Iterator[str]:
    """A round of one contender, with a server of its own."""
    folder.mkdir(parents=True)
    one.peer.start(folder)
    try:
        shares.bound(one.server, one.server_share)
        for count in pairs:
            yield f"{one.title}, {count} + {count} processes"
            cell = Cell(f"large-{count}", LARGE, 1, count)
            connect = partial(bounded, shares, share, one.peer.open(f"q{count}", cell))
            figures = turn(connect, cell, Bounds(seconds, 0, STEADY_SECONDS))
            one.moved.setdefault(count, []).append(figures["objects_per_second"])
            one.peer.remove(f"q{count}")
            shares.sweep()
    finally:
        one.peer.stop()
        shares.sweep()


def draw(all_of: list[Contender], pairs: list[int], share: float, path: Path) -> None:
    from snowmelt_lab.drawing import INK, RIGHT, WRONG, canvas, save  # noqa: PLC0415

    title = f"More pairs, each process on {share:.0%} of a core"
    figure, (rates,) = canvas(1, title)
    colours = (RIGHT, WRONG, "#e09f3e")
    for one, colour in zip(all_of, colours, strict=True):
        rates.plot(pairs, [one.rate(count) for count in pairs], "o-", color=colour, label=one.title)
    ours = all_of[0]
    rates.plot(
        pairs, [ours.rate(1) * count for count in pairs], "--", color=INK, label="one pair, times n"
    )
    rates.set_xlabel("pairs of a producer and a consumer")
    rates.set_ylabel("objects a second, all together")
    rates.set_ylim(bottom=0)
    rates.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)


def options_of() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", default="1,2,5,10")
    parser.add_argument("--share", type=float, default=0.05, help="of a core, for each process")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.pairs = sorted({1, *map(int, options.pairs.split(","))})
    return options


def main() -> int:
    options = options_of()
    end_on_sigterm()
    try:
        shares = Shares(f"snowmelt-scale-{getpid()}")
    except Unbounded as error:
        return missing(error, options)
    all_of = contenders(options.share)
    try:
        with tempfile.TemporaryDirectory(prefix="scale-") as folder:
            for number in range(options.rounds):
                for one in all_of:
                    place = Path(folder) / str(number) / one.peer.name
                    for line in measure(
                        one, shares, options.share, options.pairs, options.seconds, place
                    ):
                        progress(f"round {number + 1} of {options.rounds}: {line}")
    except Missing as error:
        return missing(error, options)
    except TurnFailed as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    finally:
        progress("")
        shares.close()
    if options.figure is not None:
        draw(all_of, options.pairs, options.share, options.figure)
    tell(all_of, options)
    return 0


def missing(error: Exception, options: argparse.Namespace) -> int:
    """What it takes is not here: there is nothing to tell."""
    told = {"benchmark": "pool_scale", "missing": str(error)}
    print(json.dumps(told) if options.json else f"nothing was measured: {error}")
    return 0


def tell(all_of: list[Contender], options: argparse.Namespace) -> None:
    if options.json:
        rows = [{"title": one.title, "objects_per_second": one.moved} for one in all_of]
        print(json.dumps({"benchmark": "pool_scale", "share": options.share, "rows": rows}))
        return
    for one in all_of:
        print(one.title)
        for count in options.pairs:
            print(f"  {count:>3} pairs: {one.rate(count):7.1f} objects/s,", end=" ")
            print(f"{one.scale(count):.2f} times one pair")


if __name__ == "__main__":
    sys.exit(main())
