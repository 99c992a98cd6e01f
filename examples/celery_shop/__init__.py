"""A Celery program that had a broker, and has none any more."""
