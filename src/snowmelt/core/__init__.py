"""The words all else is written in; begin with `node.py`."""
