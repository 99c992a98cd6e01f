"""What nodes say to each other: of homes, of copies, and of partitions.

Each file is a union of frozen structs, whose types say which fields are allowed. It imports `state`
for the batches that travel, and nothing of who says these or hears them.
"""
