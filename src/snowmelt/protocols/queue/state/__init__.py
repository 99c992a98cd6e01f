"""The state of a partition: a value, and all that it is made of.

It has batches and keys of items, groups, producers, what is staged, and the records that tell it
again. It imports `api` and the clock of `outbox.py`. Whoever has these records is in the same
state, so nothing here may know who leads, follows or routes.
"""
