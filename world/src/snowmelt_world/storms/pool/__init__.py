"""Pools in a storm: what the living keep is acknowledged once, and no one idles beside plenty."""
