"""Tasks of the storm: each notes that it ran, in a file of its own."""

import os
import time
from pathlib import Path

import snowmelt_doors.celery  # noqa: F401
from celery import Celery

URL = os.environ.get("SNOWMELT_URL", "snowmelt://127.0.0.1:4410")
app = Celery("storm_tasks", broker=URL, backend=URL)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    broker_transport_options={"queue_options": {"lease": 1.0}},
    broker_connection_retry_on_startup=True,
)


@app.task
def note(number: int, seconds: float = 0.0) -> int:
    folder = Path(os.environ["STORM_NOTES"])
    with (folder / str(number)).open("a") as file:
        file.write("ran\n")
    time.sleep(seconds)
    return number
