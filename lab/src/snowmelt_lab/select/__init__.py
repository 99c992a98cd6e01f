"""KSelect in synchronous rounds, with the machines and in arrays; printed and repaired.

1. *Load* (`load.py`): so many elements, by chance; nodes have them as the arcs of the ring are, or
   evenly, or each has a stretch of the order.
2. *Machines* (`experiment.py`): `OverlayNode` in its synchronous mode with `Selecting`.
3. *Rounds*: from when all nodes begin until the anchor knows the element. What is sent in one
   round comes in the next; within a node nothing takes time.
4. *Arrays* (`arrays.py`) say the same for a hundred thousand nodes: the anchor is the machine's
   own, what nodes answer comes from one sorted array, and when from the overlay's arrays.
5. *Exact*: what was found is the k-th of all elements, sorted here.
"""
