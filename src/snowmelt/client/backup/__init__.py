"""A queue in a file: backups, and queues that are made of them."""
