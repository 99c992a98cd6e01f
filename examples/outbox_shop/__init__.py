"""A shop whose database and queues agree, whatever is killed."""
