"""The parts of `arrow_directory.py`: the best order there is, and graphs that trees grow on."""
