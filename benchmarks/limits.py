"""What the machine and the language allow one item at a time, and how far from it Snowmelt is.

    python benchmarks/limits.py [--rounds 3] [--seconds 1] [--cells WORD,...] [--folder DIR]
        [--plot FILE] [--json]

For each kind of work that `docs/research/peers.md` has a figure of: a ladder of programs, from a
bare server that answers frames (`limits_parts/bare_server.py`: the same Python, uvloop, sockets),
through one that flushes each turn of its loop, and one that decodes and encodes what our clients
say, to Snowmelt and to Redis. Bodies are 100 B, random. The client is on one core, every server on
another. The rungs take turns within a round; a rate is the median of the rounds. Processor time is
told too, of client and servers, in microseconds an item, the least of the rounds: other work on the
machine changes it little. The picture is of that. Ratios are taken within one run.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.limits_parts.main import main

if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # the servers are stopped by now
        raise SystemExit(130) from None
