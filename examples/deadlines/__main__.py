"""`python -m deadlines`: parcels, due at some time each; workers, one killed; an account."""

import argparse
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import snowmelt
from deadlines.worker import work
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.core.errors import SnowmeltError

RUSH = 10
"""One in so many is put while the workers are busy, and is due before all that wait."""
SECOND = {"float": 1.0, "int": 1_000_000_000}
"""How a deadline is counted: as `time.time()` has it, or in whole nanoseconds."""

Parcel = dict[str, Any]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m deadlines", description=__doc__)
    parser.add_argument("--parcels", type=int, default=600)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--work", type=float, default=0.02, help="seconds that a parcel takes")
    parser.add_argument("--due", type=float, default=10.0, help="seconds in which all are due")
    parser.add_argument("--kind", choices=SECOND, default="float", help="what deadlines are")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds for all of it")
    parser.add_argument("--url", help="a cluster with no parcels yet; if none, three nodes")
    options = parser.parse_args()
    if options.parcels < 20 or options.workers < 2 or min(options.work, options.due) < 0:
        parser.error("--parcels is 20 or more, --workers 2 or more, --work and --due 0 or more")
    return options


def _main() -> int:
    options = _options()
    end_on_sigterm()
    with ExitStack() as stack:
        url = options.url or _own_nodes(stack)
        cluster = stack.enter_context(snowmelt.connect(url))
        kind = {"float": float, "int": int}[options.kind]
        parcels = cluster.priority("parcels", priorities=kind, replicas=2, lease=2.0)
        orders = _orders(options)
        usual = [one for one in orders if not one["rush"]]
        _put(parcels, usual)
        _tell(parcels, options.kind)
        workers = stack.enter_context(_started(options.workers, url))
        sent = _sent(cluster, workers, orders, options.patience)
        return _account(orders, sent, options.kind)


def _orders(options: argparse.Namespace) -> list[Parcel]:
    """In the order in which they are put, which says nothing of when they are due."""
    chance, now = random.Random(4), time.time()
    orders: list[Parcel] = []
    for number in range(options.parcels):
        rush = number >= options.parcels - options.parcels // RUSH
        due = now if rush else now + chance.random() * options.due
        seconds = options.work
        orders.append({"number": number, "rush": rush, "due": due, "seconds": seconds})
    return [{**one, "due": _counted(one["due"], options.kind)} for one in orders]


def _counted(due: float, kind: str) -> int | float:
    return due if kind == "float" else int(due * SECOND[kind])


def _put(parcels: snowmelt.PriorityQueue, orders: list[Parcel]) -> None:
    parcels.put_many([(one["due"], json.dumps(one).encode()) for one in orders])


def _tell(parcels: snowmelt.PriorityQueue, kind: str) -> None:
    """When the first is due, the one in the middle, and the last; none is taken for that."""
    seen = [parcels.select(1), parcels.quantile(0.5), parcels.quantile(1)]
    first, middle, last = [one.priority / SECOND[kind] - time.time() for one in seen if one]
    print(f"due in {first:.1f} s, half of them in {middle:.1f} s, all in {last:.1f} s", flush=True)


def _own_nodes(stack: ExitStack) -> str:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deadlines-")))
    cluster = stack.enter_context(LocalCluster(3, folder, 0.5))
    print(f"{cluster.start()} is up", flush=True)
    return cluster.url


@contextmanager
def _started(count: int, url: str) -> Iterator[list[BaseProcess]]:
    """So many workers; they end with this."""
    spawn = get_context("spawn")
    names = [f"w{number + 1}" for number in range(count)]
    workers: list[BaseProcess] = [spawn.Process(target=work, args=(url, name)) for name in names]
    try:
        for one in workers:
            one.start()
        yield workers
    finally:
        for one in workers:
            one.kill()
        for one in workers:
            one.join()


def _sent(
    cluster: snowmelt.Cluster, workers: list[BaseProcess], orders: list[Parcel], patience: float
) -> list[Parcel]:
    """What the workers told, until each parcel is sent; meanwhile some are urgent, and one dies."""
    parcels, results = cluster.priority("parcels"), cluster.fifo("sent")
    end, sent, numbers = time.monotonic() + patience, list[Parcel](), set[int]()
    rush = [one for one in orders if one["rush"]]
    while time.monotonic() < end and len(numbers) < len(orders):
        for item in results.consume(timeout=0.2):
            sent.append(json.loads(item.body))
            numbers.add(sent[-1]["number"])
            item.ack()
            if rush and len(numbers) > len(orders) // 4:
                _put(parcels, rush)
                print(f"{len(rush)} more, due at once", flush=True)
                rush = []
                workers[0].kill()
                print("a worker was killed", flush=True)
    return sent


def _account(orders: list[Parcel], sent: list[Parcel], kind: str) -> int:
    """Prints what became of every parcel; 1 when something is not as it must be."""
    first: dict[int, Parcel] = {}
    for one in sorted(sent, key=lambda one: one["at"]):
        first.setdefault(one["number"], one)
    times = Counter(one["number"] for one in sent)
    ends = [one["at"] for one in first.values()]
    due = [one["due"] / SECOND[kind] for one in orders]
    late = [one["at"] - one["due"] / SECOND[kind] for one in first.values()]
    by_arrival = [at - own for at, own in zip(ends, due, strict=False)]
    rush = {one["number"] for one in orders if one["rush"]}
    names = {one["worker"] for one in sent}
    passed = sum(not _in_order(first.values(), rush, name) for name in names)
    print(f"{len(orders):8,}  parcels")
    print(f"{len(first):8,}  sent by {len(names)} workers")
    print(f"{len(orders) - len(first):8,}  lost")
    print(f"{len(sent) - len(times):8,}  sent twice (a worker was killed before it could say so)")
    print(f"{passed:8,}  workers that sent a later one before an earlier one")
    for words, rows in (("", late), (" if they had gone as they came", by_arrival)):
        print(f"{max(0.0, max(rows, default=0)):8.2f}  s late was the latest{words}")
    return 0 if len(first) == len(orders) and not passed else 1


def _in_order(sent: Iterable[Parcel], rush: set[int], name: str) -> bool:
    """Whether a worker sent by deadline what waited from the start and nobody else had held."""
    own = [one for one in sent if one["worker"] == name and not one["failures"]]
    due = [one["due"] for one in own if one["number"] not in rush]
    return due == sorted(due)


if __name__ == "__main__":
    try:
        raise SystemExit(_main())
    except SnowmeltError as error:
        raise SystemExit(f"deadlines: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
