"""A stream of Spark in a storm: every item comes out once, wherever the stream is killed."""
