"""A real etcd, through its JSON gateway, for the machine that speaks `protocols.etcd`.

    etcd://HOST:PORT[,HOST:PORT...]/PREFIX[?authority=FILE&certificate=FILE&key=FILE]

What it is made of, and why (`benchmarks/etcd_client.py` measures it):

1. The gateway, over `http.client` of the standard library, in two threads: one for leases, one for
   transactions. A compare-and-set takes 1 ms so, of which etcd's flush is most; and at rest a
   cluster asks once a second. gRPC (`aetcd`) would be no quicker where it matters, and would bring
   two libraries with compiled parts; `etcd3gw` is the same gateway with a third party between.
2. Each call has a time in which to be answered, and each answer a size; a call that nobody
   answered in time is `UNKNOWN`, and its connection is closed. The next goes to the next endpoint.
   An endpoint that takes no connection was told nothing, so the next is tried at once.
3. Answers are read as typed structures, with a bound to every field, and never as anything else.
4. A user and a password are exchanged for a token, again when it is not taken any more.
"""

from snowmelt.runtime.etcd.client import EtcdClient
from snowmelt.runtime.etcd.place import EtcdPlace

__all__ = ["EtcdClient", "EtcdPlace"]
