"""What users run in the day of a cluster, and another version to run it with."""
