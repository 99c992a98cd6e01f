"""Huey: a task, called; `huey_consumer`."""

from benchmarks.peers.programs.counting import BROKER, done, enqueue
from huey import RedisHuey

huey = RedisHuey("jobs", url=BROKER)


@huey.task()
def nothing() -> None:
    """The job."""
    done()


def main() -> None:
    """Enqueues them."""
    enqueue(nothing)
