"""RQ: a function, enqueued; `rq worker-pool`, which forks a process for each job."""

from benchmarks.peers.programs.counting import BROKER, done, enqueue
from redis import Redis
from rq import Queue


def nothing() -> None:
    """The job."""
    done()


def main() -> None:
    """Enqueues them."""
    queue = Queue(connection=Redis.from_url(BROKER))
    enqueue(lambda: queue.enqueue("benchmarks.peers.programs.rq_jobs.nothing"))
