"""A broker for Taskiq, and a backend for its results.

`broker.py` is what a program says and what a worker listens to, `results.py` keeps what tasks
return. How Taskiq's words are ours, in rules:

1. A queue is a priority queue, TASKIQ.NAME: `queue_name` of the broker, or of a task's label. The
   label `priority` is any whole number, 0 without one; the largest is the most urgent.
2. The label `delay` is in seconds. Such a task waits in the cluster, and not in a worker.
3. A message is acknowledged when Taskiq says so (`--ack-type`: when its result is saved, unless you
   say otherwise). Until then its lease is renewed for as long as the worker is there.
4. Acknowledgements are gathered for a twentieth of a second. A message whose worker is killed
   before comes again: at least once. One that kills its worker `max_deliveries` times (20) is dead.
5. A stop gives back what was leased and not begun, and waits for what is in hand, as Taskiq does.
   What is not done then goes back when the broker shuts down, and what a cancelled receiver drops
   goes back at once.
6. A cluster that goes away is waited for.
7. A broker belongs to the event loop that it was started on, until `shutdown`; then it can be
   started again, on another.
"""

from snowmelt_doors.taskiq.broker import SnowmeltBroker
from snowmelt_doors.taskiq.results import SnowmeltResultBackend

__all__ = ["SnowmeltBroker", "SnowmeltResultBackend"]
