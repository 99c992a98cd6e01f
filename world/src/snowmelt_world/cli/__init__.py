"""The commands `sim`, `check`, `chaos` and `attack`."""
