"""A node whose store copies its records as soon as a little is free; else as people start it."""

from snowmelt.cli.main import run
from snowmelt.store import shrinking

shrinking.SPARE_MIN = 256 << 10
shrinking.LOOK_SECONDS = 0.2
shrinking.AGAIN_SECONDS = 0.5
shrinking._SLICE_BYTES = 64 << 10
shrinking._SHARE = 3

if __name__ == "__main__":
    run()
