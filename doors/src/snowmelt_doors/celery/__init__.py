"""A door for Celery and kombu."""
