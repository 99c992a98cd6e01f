"""Dramatiq: an actor, sent; `dramatiq`."""

import dramatiq
from benchmarks.peers.programs.counting import BROKER, done, enqueue
from dramatiq.brokers.rabbitmq import RabbitmqBroker
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker((RabbitmqBroker if BROKER.startswith("amqp") else RedisBroker)(url=BROKER))


@dramatiq.actor
def nothing() -> None:
    """The job."""
    done()


def main() -> None:
    """Enqueues them."""
    enqueue(nothing.send)
