"""Snowmelt's priority queue beside Redis, beanstalkd and RabbitMQ, in one run.

    python benchmarks/priority_peers.py [--quick] [--peers snowmelt,redis] [--only peers,scale]
        [--rounds 3] [--json]

It starts the servers itself, on free ports of the loopback, with their data under
`bench-results/tmp` (`--data`), and stops them in the end. Debian has them all:

    apt-get install --no-install-recommends redis-server beanstalkd rabbitmq-server

Items of 100 B are put, and then all got and acknowledged: 1,000 a call, one at a time, and by 64
tasks of one process at once. The client has one core and every server another. Then up to
sixteen nodes move what they can, each on the same small share of a core (which needs root). How
each peer is used, and what its acknowledgement means, stands at the top of its file in
`benchmarks/priority_peers_parts`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.priority_peers_parts.main import main

if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # the servers are stopped by now
        raise SystemExit(130) from None
