"""The `snowmelt` program: one small file for each group of commands, put together in `main.py`."""
