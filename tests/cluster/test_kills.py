"""An executor is killed, then a worker, then the driver with its Java: each item comes out once."""

import os
import signal

import pytest
from tests.cluster.bench import Bench
from tests.spark.cluster import wait_until

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

ITEMS = 3000
SECONDS = 200


def test_each_item_comes_out_once_and_in_order_through_kills_of_all_parts(bench: Bench) -> None:
    bodies = [b"%04d" % number for number in range(ITEMS)]
    bench.queues.fifo("kills").put_many(bodies)
    out = bench.queues.fifo("kills.loud")
    said = bench.settings("kills", **{"spark.master": bench.spark.url})
    words = ("slowly", bench.url, str(bench.folder), "kills")
    first, second = bench.spark.workers
    driver = bench.begin(*words, variables=said)

    def reached(count: int) -> bool:
        there = "kills.loud" in bench.queues.queues()
        return driver.process.poll() is not None or (there and out.stats().tail >= count)

    assert wait_until(lambda: reached(300), SECONDS), driver.log.read_text()
    os.kill(second.children()[0], signal.SIGKILL)
    assert wait_until(lambda: reached(800), SECONDS), driver.log.read_text()
    first.kill()
    assert wait_until(lambda: reached(1300), SECONDS), driver.log.read_text()
    assert driver.process.poll() is None, "it should be in the middle"
    driver.kill()
    driver = bench.begin(*words, variables=said)
    assert driver.process.wait(SECONDS) == 0, driver.log.read_text()
    assert [seen.body for seen in out.peek(2 * ITEMS)] == bodies
