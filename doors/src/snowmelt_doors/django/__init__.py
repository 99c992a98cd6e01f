"""A door for Django's tasks."""
