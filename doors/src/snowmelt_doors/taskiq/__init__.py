"""A door for Taskiq."""
