"""Exact quantiles of a table and of what waits in a queue."""
