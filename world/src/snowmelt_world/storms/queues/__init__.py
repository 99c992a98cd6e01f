"""Queues in a storm: what was put comes out once, in order, and stays away once acknowledged."""
