"""How a step becomes safe: a term's log, what others have of it, and which copies count.

It has the fencing with which a term begins (`takeover.py`), and copies on their way to others. It
imports `store` and what is below: it counts answers, and does not know what calls a step serves.
"""
