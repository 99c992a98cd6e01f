"""A broker for Dramatiq, and a backend for its results.

`broker.py` is what a program says, `consumer.py` takes messages for a worker, `results.py` keeps
what actors return. How Dramatiq's words are ours, in rules:

1. A queue of Dramatiq's is a fifo, NAMESPACE.NAME. With `max_priority` it is a priority queue: of
   messages that wait the one with the largest `broker_priority` comes next, as with RabbitMQ. An
   actor may have a `broker_priority` for its messages, and a message one of its own.
2. A message with a delay waits in its queue, in the cluster, and not in a worker: there are no
   delay queues. So a worker that dies holds up none, and a delay may last for years.
3. A worker's consumer leases up to `prefetch` messages. A thread renews the leases for as long as
   the worker is there, however long an actor works.
4. `ack` is gathered for a twentieth of a second. A message whose worker is killed before comes
   again: at least once. One whose lease was lost is done again by another, and the log says so.
5. `nack` sets a message aside as dead in its queue: `peek(dead=True)` shows it with its reason,
   `redrive` brings it back. So does the cluster with one that killed its worker `max_deliveries`
   times (20).
6. A stop gives back at once what was leased and not begun, as if it had not been taken.
7. A cluster that goes away is waited for: messages in hand stay in hand as long as their leases
   last. A consumer that never reached one says `ConnectionClosed`, and Dramatiq tries again.
8. Processes: a broker that is opened before a fork connects anew in the child. A folder belongs to
   one process.
9. `join` waits until a queue has no message that waits, is delayed or in hand. `flush` removes all
   that wait, are delayed or dead; what is in hand stays there.
"""

from snowmelt_doors.dramatiq.broker import SnowmeltBroker
from snowmelt_doors.dramatiq.results import SnowmeltResults

__all__ = ["SnowmeltBroker", "SnowmeltResults"]
