"""What a person holds: a `Cluster`, blocking (`snowmelt.connect`) or async (`snowmelt.aio`).

Both drive the same client machine, `protocols.calling.Caller`: `connection.blocking` with plain
sockets in the caller's own thread, `connection.asynchronous` on an event loop.

A family has a room: `face.py` is what a person holds, `face_async.py` the same with `await`,
`steps.py` what both drive. `queue` and `leases` are shared by the fifo and the priority queue,
`together` by whatever several callers may ask at once.
"""
