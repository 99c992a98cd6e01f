"""What `spark_rates.py` is made of."""
