"""`python -m stages`: three stages that pools join, and an exact account in the end."""

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

import snowmelt
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from stages.event import expected
from stages.stage import calibrated, counted, detect


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m stages", description=__doc__)
    parser.add_argument("--detectors", type=int, default=3)
    parser.add_argument("--calibrators", type=int, default=2)
    parser.add_argument("--events", type=int, default=200, help="of each detector")
    parser.add_argument("--url", help="a cluster; if none, a node of its own")
    options = parser.parse_args()
    if min(options.detectors, options.calibrators, options.events) < 1:
        parser.error("there must be a detector, a calibrator and an event")
    return options


def _run(options: argparse.Namespace, url: str) -> int:
    context = multiprocessing.get_context("spawn")
    told = context.SimpleQueue()
    stages = [
        *((detect, (url, number, options.events)) for number in range(options.detectors)),
        *((calibrated, (url,)) for _ in range(options.calibrators)),
        (counted, (url, told)),
    ]
    processes = [context.Process(target=stage, args=given) for stage, given in stages]
    for one in processes:
        one.start()
    begin, last, carried, seen = time.monotonic(), 0.0, 0, []
    while (event := told.get()) is not None:
        seen.append(event)
        last = time.monotonic() - begin
        if len(seen) == options.detectors * options.events // 2:
            carried = _carried(url)  # while all are still connected
    for one in processes:
        one.join(60)
    return _account(options, seen, last, carried)


def _carried(url: str) -> int:
    """How many bytes the node has exchanged with all processes."""
    with snowmelt.connect(url) as cluster:
        return sum(one.bytes_in + one.bytes_out for one in cluster.statistics().connections)


def _account(
    options: argparse.Namespace, seen: list[tuple[int, int, int]], last: float, carried: int
) -> int:
    """Prints what became of every event; 1 when something is not as it must be."""
    numbers = range(options.events)
    wanted = {expected(one, number) for one in range(options.detectors) for number in numbers}
    print(f"{len(wanted):8,}  events of 1 MB made")
    print(f"{len(set(seen) & wanted):8,}  counted, each with the energy that it had")
    print(f"{len(wanted - set(seen)):8,}  lost")
    print(f"{len(seen) - len(set(seen)):8,}  counted twice")
    print(f"{last:8.1f}  s with the start of all processes")
    print(f"{carried / 1e6:8.3f}  MB went through the node for the first half: introductions")
    return 0 if set(seen) == wanted else 1


def _main() -> int:
    options = _options()
    end_on_sigterm()
    if options.url:
        return _run(options, options.url)
    with (
        tempfile.TemporaryDirectory(prefix="stages-") as folder,
        LocalCluster(1, Path(folder)) as cluster,
    ):
        cluster.start()
        return _run(options, cluster.url)


if __name__ == "__main__":
    raise SystemExit(_main())
