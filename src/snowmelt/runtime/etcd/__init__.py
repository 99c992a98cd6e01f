"""A real etcd, through its JSON gateway, for the machine that speaks `protocols.etcd`.

    etcd://HOST:PORT[,HOST:PORT...]/PREFIX[?authority=FILE&certificate=FILE&key=FILE]

What it is made of, and why:

1. The gateway, over `http.client` of the standard library, in two threads: one for leases, one for
   transactions. A read takes 0.7 ms so and a compare-and-set 4 ms, which is etcd's agreeing and
   flushing; and at rest a cluster asks once a second. So gRPC (`aetcd`) has nothing to be quicker
   at that matters, and would bring two compiled libraries; `etcd3gw` is the same gateway with
   `requests` between.
2. Each call has a time in which to be answered, and each answer a size; a call that nobody
   answered in time is `UNKNOWN`, and its connection is closed. The next goes to the next endpoint.
   An endpoint that takes no connection was told nothing, so the next is tried at once.
3. Answers are read as typed structures, with a bound to every field, and never as anything else.
4. A user and a password are exchanged for a token, again when it is not taken any more.
"""

from snowmelt.runtime.etcd.client import EtcdClient
from snowmelt.runtime.etcd.place import EtcdPlace

__all__ = ["EtcdClient", "EtcdPlace"]
