"""Celery: a task, delayed; `celery worker`."""

from benchmarks.peers.programs.counting import BROKER, done, enqueue

from celery import Celery

app = Celery("jobs", broker=BROKER)


@app.task(name="nothing", ignore_result=True)
def nothing() -> None:
    """The job."""
    done()


def main() -> None:
    """Enqueues them."""
    enqueue(nothing.delay)
