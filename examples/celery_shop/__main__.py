"""Starts a node and a worker, has them do some work, and shows what came of it."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from snowmelt.cli.local import LocalCluster


@contextmanager
def node() -> Iterator[str]:
    """Where the cluster is: yours, or one node that is started here."""
    given = os.environ.get("SNOWMELT_URL")
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder, LocalCluster(1, Path(folder)) as cluster:
        cluster.start()
        yield cluster.nodes[0].url


def work() -> None:
    """Publishes tasks, and waits for their results."""
    from celery import chord  # noqa: PLC0415  it reads the URL
    from celery_shop.tasks import app, price, send, total  # noqa: PLC0415

    basket = ["apple", "bread", "cheese", "dates"]
    bill = chord(price.s(one) for one in basket)(total.s()).get(timeout=60)
    print(f"{len(basket)} articles cost {bill / 100:.2f}")
    print(send.delay(bill).get(timeout=60))
    began = time.monotonic()
    price.apply_async(("fig",), countdown=2).get(timeout=60)
    print(f"a task with a countdown of 2 s ended after {time.monotonic() - began:.1f} s")
    urgent = [price.apply_async(("fig",), priority=priority) for priority in (0, 9)]
    print(f"prices of figs: {[one.get(timeout=60) for one in urgent]}")
    workers = app.control.ping(timeout=2)
    print(f"{len(workers)} worker answers")


def main() -> None:
    """Starts what is needed, and ends it."""
    with node() as url:
        os.environ["SNOWMELT_URL"] = url
        command = ["worker", "--concurrency", "2", "--loglevel", "WARNING"]
        worker = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "celery", "-A", "celery_shop.tasks", *command]
        )
        try:
            work()
        finally:
            worker.terminate()
            print(f"the worker ended with {worker.wait(60)}")


if __name__ == "__main__":
    main()
