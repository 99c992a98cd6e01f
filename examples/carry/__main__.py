"""`python -m carry`: orders go from queue to queue in steps, and workers are killed meanwhile."""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import snowmelt
from snowmelt.cli.local import LocalCluster, end_on_sigterm

QUEUES = ("orders", "bills", "letters", "ledger")
LEASE = 2.0
WORKERS = 3


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m carry", description=__doc__)
    parser.add_argument("--orders", type=int, default=300)
    parser.add_argument("--kills", type=int, default=4, help="so many workers are killed")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds for all of it")
    options = parser.parse_args()
    if options.orders < 1 or options.kills < 0:
        parser.error("--orders is 1 or more, --kills 0 or more")
    return options


def _worker(url: str) -> "subprocess.Popen[bytes]":
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "carry.worker", url]
    return subprocess.Popen(command, env=environment)  # noqa: S603  this very example's


def _main() -> int:
    options = _options()
    end_on_sigterm()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="carry-")))
        nodes = stack.enter_context(LocalCluster(3, folder, 0.5))
        nodes.start()
        cluster = stack.enter_context(snowmelt.connect(nodes.url))
        queues = {name: cluster.fifo(name, codec="json", lease=LEASE) for name in QUEUES}
        for queue in queues.values():
            queue.create()
        orders = [{"number": at, "price": 10 + at % 7} for at in range(options.orders)]
        queues["orders"].put_many(orders)
        workers = [_worker(nodes.url) for _ in range(WORKERS)]
        try:
            for _ in range(options.kills):
                time.sleep(random.uniform(0.5, 1.5))
                workers[0].kill()
                workers[0].wait()
                workers = [*workers[1:], _worker(nodes.url)]
                print("a worker was killed", flush=True)
            end = time.monotonic() + options.patience
            while queues["bills"].stats().done < options.orders and time.monotonic() < end:
                time.sleep(0.1)
        finally:
            for one in workers:
                one.kill()
                one.wait()
        return _account(queues, options.orders)


def _account(queues: dict[str, Any], count: int) -> int:
    """Prints what became of every order; 1 when something is not as it must be."""
    told = [_all(queues[name]) for name in ("letters", "ledger")]
    lost = sum(count - len(one) for one in told)
    twice = sum(one.total() - len(one) for one in told)
    print(f"{count:8,}  orders")
    print(f"{told[0].total():8,}  letters")
    print(f"{told[1].total():8,}  rows in the ledger")
    print(f"{lost:8,}  lost")
    print(f"{twice:8,}  twice")
    return 1 if lost or twice else 0


def _all(queue: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for item in queue.consume(timeout=0.5):
        found[str(item.value)] += 1
        item.ack()
    return found


if __name__ == "__main__":
    sys.exit(_main())
