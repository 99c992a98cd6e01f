"""What clients ask and are told, and what a person chooses for a queue.

Programs import it: a client says these calls, and a node looks at each field of them before a queue
hears of it (`asking.py`). It imports no other folder of the engine.
"""
