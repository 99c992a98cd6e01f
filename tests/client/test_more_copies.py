"""Three real nodes: a queue gets more copies while puts go on, and outlives its leader."""

import threading
from pathlib import Path

import snowmelt
from cli.program import piped
from snowmelt.cli.local import LocalCluster


def test_a_queue_of_one_copy_has_three_while_puts_go_on(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, 0.5) as nodes:
        nodes.start()
        nodes.wait_for(["n1", "n2", "n3"], 60)
        with snowmelt.connect(nodes.url) as cluster:
            orders = cluster.fifo("orders", replicas=1)
            orders.put_many([b"%d" % number for number in range(5_000)], timeout=30)
            put = [5_000]
            over = threading.Event()

            def puts() -> None:
                while not over.is_set():
                    orders.put(b"%d" % put[0], timeout=30)
                    put[0] += 1

            putting = threading.Thread(target=puts)
            putting.start()
            told = piped("alter", "orders", "--replicas", "3", "--url", nodes.url).stdout.decode()
            assert told.startswith("orders has replicas=3")
            status = orders.stats()
            while status.short_of_copies or status.settings.durable_copies == 1:
                status = orders.stats()
            over.set()
            putting.join(60)
            assert put[0] > 5_000
            assert (status.settings.replicas, status.copied) == (3, 100)
            if status.leader != "n1":  # n1 decides
                next(one for one in nodes.nodes if one.name == status.leader).kill()
            found = []
            while len(found) < put[0]:
                items = orders.get_many(1_000, timeout=60)
                found += [int(item.body) for item in items]
                items.ack()
            assert found == list(range(put[0]))
