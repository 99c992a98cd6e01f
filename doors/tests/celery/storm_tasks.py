"""Tasks of the storm: each notes when it began and ended, in a file of its own."""

import os
import time
from pathlib import Path

import snowmelt_doors.celery  # noqa: F401
from celery import Celery
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.core.instant import Instant

URL = os.environ.get("SNOWMELT_URL", "snowmelt://127.0.0.1:4410")
app = Celery("storm_tasks", broker=URL, backend=URL)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_transport_options={"queue_options": {"lease": 1.0}},
    broker_connection_retry_on_startup=True,
    worker_max_tasks_per_child=int(os.environ.get("STORM_TASKS_PER_CHILD", "0")) or None,
)
if os.environ.get("STORM_PLANT") == "no renewal":
    LeasedItems.renewal = property(lambda _: Instant(1 << 62))


@app.task
def note(number: int, seconds: float = 0.0) -> int:
    with (Path(os.environ["STORM_NOTES"]) / str(number)).open("a") as file:
        file.write(f"{time.time()} {os.getpid()}\n")
        file.flush()
        time.sleep(seconds)
    return number
