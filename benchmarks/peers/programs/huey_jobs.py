"""Huey: a task, called; `huey_consumer`."""

from benchmarks.peers.programs.counting import BROKER, done, enqueue
from huey import RedisHuey

huey = RedisHuey("jobs", url=BROKER)


@huey.task()
def nothing() -> None:
    """The job."""
    done()


if __name__ == "__main__":
    enqueue(nothing)
