"""A queue of several partitions as its user knows it: one queue, asked part by part."""
