"""Queues that the overlay orders, as programs hold them, blocking and with await."""
