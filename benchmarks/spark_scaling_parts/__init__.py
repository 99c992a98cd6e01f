"""What `spark_scaling.py` is made of."""
