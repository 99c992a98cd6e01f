"""What a person holds: a `Cluster`, blocking (`snowmelt.connect`) or async (`snowmelt.aio`).

Both drive the same client machine, `protocols.calling.Caller`: `connection.blocking` with plain
sockets in the caller's own thread, `connection.asynchronous` on an event loop.

A family has a room: `face_async.py` is what a person holds with `await`, `face.py` the same
blocking, made of it (`scripts/faces.py`), `steps.py` what both drive. `queue` and `leases` are
shared by the fifo and the priority queue, `coalescing` by whatever several callers may ask at once.
`worker` stands on top of the queues.
"""
