"""Who decides where queues are at home: the coordinator, with its disk or with etcd.

Queues are made, grow, move and end by its word, and it gives the terms. It imports `metadata`,
`store` and what is below. It may be in another process than a leader, so neither imports the
other: they meet by messages.
"""
