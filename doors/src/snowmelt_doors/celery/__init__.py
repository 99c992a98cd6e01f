"""A door for Celery and kombu: `snowmelt://` as a broker and as a result backend, with no broker.

Importing this package makes the scheme known to kombu, which has no entry point for transports:

    import snowmelt_doors.celery
    app = Celery("shop", broker="snowmelt://127.0.0.1:4410", backend="snowmelt://127.0.0.1:4410")

Where nothing may be imported, the setting `broker_transport` does it, with the value
`snowmelt_doors.celery:SnowmeltTransport`. A result backend needs neither: Celery finds it by an
entry point.

How kombu's words map to ours, in numbered rules:

1. A queue is a priority queue of ours, with the ten priorities of kombu, the largest first. Its
   name is the same where the cluster allows it; else it is `kombu.`, what of it is allowed, and a
   digest. A queue that is there as another kind, or with other settings, is taken as it is.
2. A message is one item. Its priority is the item's (0 to 9, a message without one has 0). Of equal
   ones the first published comes first, also after it was given back.
3. A publish returns when each queue has the message on `durable_copies` disks. Where no answer came
   it raises `OperationalError`, and kombu does not publish it again: it may be in the queue.
4. A message with an `eta` (Celery's `eta` and `countdown`) is delayed in the queue until then. No
   worker holds it, so a restart of all workers changes nothing, and no time-out can run it twice.
5. A message with an `expiration` that is over when it comes is dropped.
6. What a consumer was given is leased to it. The lease is renewed for as long as the channel is
   open, however long the task runs. When the process dies or stands still, the lease ends (30 s,
   the queue's `lease`), and the message comes to another, marked as `redelivered`.
7. `ack` returns when the cluster knows it; the same call leases the next message, where there is
   one. When no node answers, it is said again in the background until one does. When the lease was
   lost, it raises `LeaseLost`, a connection error for kombu.
8. `reject(requeue=True)` gives the message back to its place; that counts as a failed delivery, and
   after `max_deliveries` (20) it is dead. `reject()` sets it aside as dead at once: `snowmelt
   redrive` brings it back.
9. Closing a consumer leases nothing more; what it was given stays leased. Closing the channel gives
   back what was not acknowledged, at its place, and that is no failure.
10. No more is leased than `prefetch_count` allows over all consumers of a channel; with several
    queues one more for each, since each waits by itself. A message that is not leased is nobody's.
11. Exchanges and their bindings are kept in the cluster, as the value of one baton
    (`kombu.exchanges`), in 1 MiB. They last until they are deleted. A program sees what it declares
    itself at once, and what another declares within a second, or when a message has no way.
12. A queue that ends with its program hears a topic of ours, one of each exchange, and is not
    stored. Such is a queue that is not durable, is `auto_delete` or `exclusive`, and is bound to a
    fanout or topic exchange, or has an expiry. Remote control, its replies, and events are these.
    They begin with the binding, may be missed when a node dies, and have 1 MiB at most.
13. A cluster that is away is waited for by consumers, as long as it takes; they go on by themselves
    when a node is back. Calls raise errors that kombu knows (`connection_errors`).
14. After a fork a child has connections of its own, and gives back nothing of its parent's.
15. `purge` removes what is ready and delayed; what is leased stays. `queue_declare` says how many
    are ready. `queue_delete` removes the queue with all that is in it, and its bindings.
"""

from kombu.transport import TRANSPORT_ALIASES

from snowmelt_doors.celery.channel import Channel
from snowmelt_doors.celery.transport import SnowmeltTransport

__all__ = ["Channel", "SnowmeltTransport"]

TRANSPORT_ALIASES.setdefault("snowmelt", "snowmelt_doors.celery.transport:SnowmeltTransport")
