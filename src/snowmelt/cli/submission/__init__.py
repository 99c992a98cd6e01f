"""What `spark-submit` runs: in a folder of its own, since Spark makes its folder importable."""
