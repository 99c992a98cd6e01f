"""What a node does with copies that others lead: it takes their steps, and gives bodies.

A data node is here, too, and whatever is read from the disk for others. It imports `leader`: a
follower stops a leader of an earlier term, and may have to become one. No leader imports it.
"""
