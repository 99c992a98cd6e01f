"""What a node has on its disk: copies of partitions, and the bodies that are at hand.

All copies of a node are written one write at a time, whether it leads them or follows. It imports
`messages`, since what depends on a write is one, and what is below.
"""
