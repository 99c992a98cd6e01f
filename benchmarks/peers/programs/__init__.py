"""Each library's program of jobs, run by the Python of an environment of its own."""
