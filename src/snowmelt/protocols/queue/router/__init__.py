"""The door of a node: it finds who leads a queue, and brings calls there and answers back.

Puts with large bodies, gets of several partitions, and transactions have doors of their own. It may
import all other folders; only `node.py` and the files beside it import it.
"""
