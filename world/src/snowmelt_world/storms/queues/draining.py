"""The end of a run: everybody is up, and the queue is emptied, to the last leased item."""

import time
from typing import Any, Final

import snowmelt
from snowmelt.core.errors import Empty, SnowmeltError
from snowmelt.protocols.queue.api.calls import QueueStatus
from snowmelt_world.check import Ended, Kind
from snowmelt_world.storms.journals import now
from snowmelt_world.storms.queues.load import QueueLoad, id_of
from snowmelt_world.storms.queues.recording import Recorder

GET_ITEMS: Final = 5000


def drain(load: QueueLoad, timeout: float) -> tuple[QueueStatus | None, str]:
    """Empties the queue; how it is then, and what went wrong, if something did."""
    end = time.monotonic() + timeout
    status, wrong = None, ""
    with (
        Recorder(load.setting.folder, "drain") as recorder,
        snowmelt.connect(load.setting.url) as cluster,
    ):
        queue = load.queue(cluster)
        while time.monotonic() < end:
            try:
                _take_all(load, queue, recorder)
                called = now()
                status = queue.stats()
            except SnowmeltError as error:
                recorder.attempts[f"drain {type(error).__name__}"] += 1
                wrong = f"{type(error).__name__}: {error}"
                continue
            if not (status.ready or status.leased or status.delayed or status.dead):
                recorder.ended("drain", Kind.DRAIN, [], called)
                return status, ""
            wrong = f"{status}"
            time.sleep(0.2)
    return status, f"the queue was not empty after {timeout:g} s: {wrong}"


def _take_all(load: QueueLoad, queue: Any, recorder: Recorder) -> None:
    while True:
        called = now()
        try:
            items = queue.get_many(GET_ITEMS, timeout=1.0)
        except Empty:
            return
        except SnowmeltError:
            recorder.ended("drain", Kind.GET, [], called, Ended.UNKNOWN)
            raise
        ids = [id_of(item.body) for item in items]
        recorder.places.leased(items.token)
        for id_, item in zip(ids, items, strict=True):
            recorder.places.got(id_, load.stands(id_, item.position), item.failures)
        recorder.ended("drain", Kind.GET, ids, called)
        called = now()
        try:
            items.ack()
        except SnowmeltError:
            recorder.ended("drain", Kind.ACK, ids, called, Ended.UNKNOWN)
            raise
        recorder.ended("drain", Kind.ACK, ids, called)
