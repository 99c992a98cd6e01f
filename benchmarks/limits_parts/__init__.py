"""The parts of `limits.py`: bare programs of the shape of a queue, and what is measured of them."""
