"""The commands `sim` and `check`."""
