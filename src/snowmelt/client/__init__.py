"""What a person holds: a `Cluster`, blocking (`snowmelt.connect`) or async (`snowmelt.aio`).

Both drive the same client machine, `protocols.calling.Caller`; `blocking.py` with plain sockets in
the caller's own thread, `asynchronous.py` on an event loop.
"""
