"""Many names of batons, in waves, each name used once and left: what they cost nodes and users.

    python benchmarks/baton_names.py [--names 9000] [--waves 3] [--rest 240] [--json]

Three nodes on the loopback, and one client, at a node that is not the coordinator. After each wave
it rests, so that names that nobody uses are folded; the node would else refuse the 10,001st. In the
end names of the first wave are used again, in turn with one name that is in use all the time and
with names that are new, and must still have what was left with them.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import msgspec

import snowmelt
from snowmelt.cli.local import LocalCluster

AGAIN = 1000
"""So many old names are used again."""


class Wave(msgspec.Struct):
    """One wave of names, and the resident memory of each node."""

    seconds: float
    used_mb: list[float]
    """When all of them had been used."""
    rested_mb: list[float]
    """After the rest."""


class Result(msgspec.Struct):
    """What was measured. Times are those of taking a free baton, the median in microseconds."""

    names: int
    start_mb: list[float]
    waves: list[Wave]
    in_use_us: float
    folded_us: float
    new_us: float

    @property
    def ratio(self) -> float:
        """A folded name beside one in use."""
        return self.folded_us / self.in_use_us


def measured(names: int, waves: int, rest: float) -> Result:
    """Runs it all."""
    with tempfile.TemporaryDirectory() as folder, LocalCluster(3, Path(folder), 1.0) as cluster:
        cluster.start()
        start = memory(cluster)
        with snowmelt.connect(cluster.nodes[-1].url) as client:
            done = [wave(cluster, client, number, names, rest) for number in range(waves)]
            folded, in_use, new = again(client, names)
        return Result(names, start, done, in_use, folded, new)


def wave(
    cluster: LocalCluster, client: snowmelt.Cluster, number: int, names: int, rest: float
) -> Wave:
    """Uses each name once, and rests."""
    begin = time.perf_counter()
    for name in names_of(number, names):
        with client.baton(name) as held:
            held.value = name.encode() if name.endswith("0") else b""
    seconds = time.perf_counter() - begin
    used = memory(cluster)
    time.sleep(rest)
    return Wave(round(seconds, 1), used, memory(cluster))


def again(client: snowmelt.Cluster, names: int) -> tuple[float, float, float]:
    """Old names, one that is in use, and new ones, in turn."""
    times: list[list[float]] = [[], [], []]
    for number, old in enumerate(list(names_of(0, names))[:AGAIN]):
        for into, name in zip(times, (old, "in-use", f"new-{number}"), strict=True):
            begin = time.perf_counter()
            with client.baton(name) as held:
                into.append(time.perf_counter() - begin)
                left = old.encode() if name == old and old.endswith("0") else b""
                if held.value != left:
                    raise AssertionError(f"{name} had {held.value!r}, not {left!r}")
    folded, in_use, new = (round(1e6 * median(one), 1) for one in times)
    return folded, in_use, new


def names_of(number: int, names: int) -> Iterator[str]:
    """Those of one wave; every tenth gets a value."""
    return (f"wave-{number}-{one}" for one in range(names))


def memory(cluster: LocalCluster) -> list[float]:
    """What each node has, in MB."""
    page_mb = 4096 / 1e6
    return [
        round(int(Path(f"/proc/{node.pid}/statm").read_text().split()[1]) * page_mb, 1)
        for node in cluster.nodes
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--names", type=int, default=9000, help="of each wave")
    parser.add_argument("--waves", type=int, default=3)
    parser.add_argument("--rest", type=float, default=240.0, help="seconds after each wave")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    result = measured(given.names, given.waves, given.rest)
    if given.json:
        print(json.dumps({**msgspec.to_builtins(result), "ratio": round(result.ratio, 2)}))
        return 0
    print(f"resident memory of each node, MB: {result.start_mb} at the start")
    for number, one in enumerate(result.waves, 1):
        print(
            f"wave {number}, {result.names} names in {one.seconds} s: {one.used_mb} when used,"
            f" {one.rested_mb} after the rest"
        )
    print(
        f"to take a free baton: in use {result.in_use_us} us, folded {result.folded_us} us"
        f" ({result.ratio:.2f}), new {result.new_us} us"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
