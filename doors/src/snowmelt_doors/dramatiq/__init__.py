"""A door for Dramatiq."""
