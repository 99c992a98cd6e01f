"""The commands `lab` and `advise`."""
