"""One node on a real network: sockets, clocks, timers and the disk round a machine that knows none.

Begin at `driver.py`, which carries out effects; `connection.py` and `transport.py` move frames,
`server.py` puts a whole process together.
"""
