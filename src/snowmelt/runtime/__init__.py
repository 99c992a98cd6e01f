"""One node on a real network: sockets, clocks, timers and the disk round a machine that knows none.

Begin at `running.py`, which carries out effects, and `driver.py`, which does so on a node's loop;
`connection.py` and `transport.py` move bytes, `server.py` puts a whole process together. `steps.py`
is the same where nothing but the caller runs.
"""
