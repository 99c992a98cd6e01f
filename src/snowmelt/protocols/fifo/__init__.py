"""What queues share: what clients ask, settings, who is where, and what a put brings."""
