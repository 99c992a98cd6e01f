"""Batons in a storm: fences only grow, turns come in order, and values are those that were left."""
