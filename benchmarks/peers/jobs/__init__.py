"""Jobs that do nothing: put by one program, one by one, and then worked off by ten workers.

Snowmelt's worker beside Huey, Dramatiq, Celery, RQ, arq, Taskiq and Procrastinate. Each is used as
its own documentation advises, with a server of its own, and its program is in
`benchmarks/peers/programs`. What a server flushes, and what becomes of a job whose worker is
killed, is said beside each. Where Redis is used it flushes every second, or before it answers
(`-always`). Snowmelt's worker has its defaults, which is one thread; `snowmelt-10` has ten.

    apt-get install --no-install-recommends redis-server rabbitmq-server postgresql
    snowmelt bench jobs --install

`--install` makes an environment for each library under `bench-results/jobs`, since they don't agree
on a version of redis-py. The product depends on none of them.
"""

from typing import Final

from benchmarks.peers.comparison import Comparison, Work
from benchmarks.peers.jobs.installing import install
from benchmarks.peers.jobs.libraries import PEERS
from benchmarks.peers.jobs.work import put_and_work_off

COMPARISON: Final = Comparison(
    name="jobs",
    about="Jobs that do nothing: Snowmelt's worker beside the libraries that people use",
    peers=PEERS,
    works=(Work("jobs", "jobs that do nothing, ten workers", put_and_work_off),),
    ours=("snowmelt", "snowmelt-10"),
    columns={
        "all s": "all_s",
        "put s": "put_s",
        "start s": "start_s",
        "work s": "work_s",
        "put/s": "put_per_second",
        "jobs/s": "jobs_per_second",
        "put us": "client_us",
        "worker us": "worker_us",
        "servers us": "servers_us",
    },
    charted={"put_per_second": "jobs put a second", "jobs_per_second": "jobs done a second"},
    legend="what is flushed; a job whose worker is killed",
    notes=(
        "put: all of them, before any worker runs. start: from the workers' start to the first "
        "job. work: from that to the last. all: put and work. Microseconds\n"
        "of the processor a job. x: how many times this row's seconds Snowmelt's are. "
        "Above the line: what was put is flushed before the call returns. Below: now and then."
    ),
    rounds=(3, 1),
    count=(20_000, 2_000),
    counted="jobs",
    setup=install,
)
