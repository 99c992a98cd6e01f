"""What the fifo and the priority queue share: options, bodies, groups, staged puts."""
