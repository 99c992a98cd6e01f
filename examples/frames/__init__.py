"""Cameras keep their frames in a pool, and workers pull them as they become free."""
