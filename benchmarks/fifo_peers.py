"""Snowmelt's fifo beside Redis Streams, NATS JetStream, beanstalkd and RabbitMQ, in one run.

    python benchmarks/fifo_peers.py [--quick] [--peers snowmelt,redis] [--sizes 100,1000] [--json]

It starts the servers itself, on free ports of the loopback, with their data under
`bench-results/tmp` (`--data`), and stops them in the end. Debian has them all:

    apt-get install --no-install-recommends redis-server nats-server beanstalkd rabbitmq-server

A work is to put some items and then to get and acknowledge them all, one at a time or in batches.
The client is one process on one core and every server has another core, the same for all. The peers
take turns within each round; a figure is the median of the rounds. How each peer is used, and what
its acknowledgement means, stands at the top of its file in `benchmarks/fifo`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.fifo.main import main

if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:  # the servers are stopped by now
        raise SystemExit(130) from None
