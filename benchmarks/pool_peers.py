"""Snowmelt's pool beside Redis lists, RabbitMQ, multiprocessing, Ray and Dask, in one run.

    python benchmarks/pool_peers.py [--quick] [--only large,hand-over] [--peers snowmelt,redis]
        [--rounds 3] [--seconds 2] [--json] [--figure bench-results/pool_peers.png]

It starts what they need itself, on free ports of the loopback, and stops it in the end. The Python
packages come with `pip install -e '.[bench]'`, Redis and RabbitMQ with

    apt-get install --no-install-recommends redis-server rabbitmq-server

Producers and consumers are processes, started anew for each turn, on any core; all peers are
measured in the same way, see `benchmarks/pool_peers_parts/work.py`. The peers take turns within
each round; a figure is the median of the rounds, and a ratio the median of the rounds' ratios. How
each peer is used, and what it promises, stands at the top of its file there.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.pool_peers_parts.main import main

if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # the servers are stopped by now
        raise SystemExit(130) from None
