"""What a get brings and the lease it is under: items, loops, renewal, acknowledgement."""
