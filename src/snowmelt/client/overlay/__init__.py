"""A fifo that the overlay orders, as programs hold it, blocking and with await."""
