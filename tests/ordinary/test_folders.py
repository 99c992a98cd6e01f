"""A folder whose program is interrupted: it goes on, whatever line it was at."""

import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import snowmelt
from ordinary.interrupting import Interrupted
from snowmelt.client.connection import steps
from snowmelt.client.embedded import face as embedded
from snowmelt.client.embedded import machine_lock
from snowmelt.client.fifo import granted
from snowmelt.client.fifo import steps as fifo_steps
from snowmelt.client.priority import steps as priority_steps
from snowmelt.core.errors import Empty, OutcomeUnknown
from snowmelt.runtime import bell, shielding

STEPS = (
    *(embedded, fifo_steps, granted, priority_steps, steps),
    *(shielding, bell, machine_lock, threading),
)


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_a_call_that_is_interrupted_at_any_line_keeps_no_other_from_its_own(
    tmp_path: Path, kind: str
) -> None:
    line, done, came = 0, False, set[bytes]()
    with snowmelt.open(tmp_path) as cluster:
        queue = getattr(cluster, kind)("orders", lease=1)
        while not done:
            line += 1
            queue.put(b"%d" % line, delay=0.001)
            time.sleep(0.002)  # so that a timer is due
            try:
                with Interrupted(line, STEPS) as interrupted:
                    item = queue.get(timeout=5)
                item.ack()
                came.add(bytes(item.body))
                done = interrupted.left > 0
            except KeyboardInterrupt:
                pass
        other = threading.Thread(target=queue.stats, daemon=True)
        other.start()
        other.join(10)
        assert not other.is_alive(), "the folder's lock is held by nobody"
        while len(came) < line:  # what was on its way comes again when its lease is over
            item = queue.get(timeout=5)
            item.ack()
            came.add(bytes(item.body))
    assert line > 100, "there is more than this to interrupt"


@pytest.mark.parametrize("kind", ["fifo", "priority"])
def test_a_handler_may_put_at_any_line_of_a_get(tmp_path: Path, kind: str) -> None:
    line, done, came = 0, False, []
    with snowmelt.open(tmp_path) as cluster:
        queue = getattr(cluster, kind)("orders")
        before = signal.signal(signal.SIGINT, lambda *_: queue.put(b"from the handler"))
        try:
            while not done:
                line += 1
                with Interrupted(line, STEPS) as interrupted, suppress(Empty, OutcomeUnknown):
                    came.append(queue.get(timeout=0.005).body)  # nothing is there: it waits
                done = interrupted.left > 0
                if len(came) < line and not done:
                    came.append(queue.get(timeout=5).body)
        finally:
            signal.signal(signal.SIGINT, before)
    assert line > 100, "there is more than this to interrupt"
    assert came == [b"from the handler"] * (line - 1)
