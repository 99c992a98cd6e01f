"""Letters by Dramatiq: what its actors are told waits in Snowmelt."""

import os
import sys
import time

import dramatiq

from snowmelt_doors.dramatiq import SnowmeltBroker

dramatiq.set_broker(SnowmeltBroker(os.environ.get("SNOWMELT_URL", "snowmelt://127.0.0.1:4410")))


@dramatiq.actor(max_retries=3, min_backoff=100)
def post(name: str) -> None:
    """Posts a letter."""
    time.sleep(0.01)
    print("posted to", name, flush=True)


if __name__ == "__main__":
    for one in sys.argv[1:]:
        post.send(one)
    post.send_with_options(args=("yourself",), delay=500)
