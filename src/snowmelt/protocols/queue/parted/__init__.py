"""A queue of several partitions, each of them a queue of its own, with one order over all."""
