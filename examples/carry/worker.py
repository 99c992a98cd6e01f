"""`python -m carry.worker URL`: makes a bill of each order, and letters of each bill, for ever."""

import sys
from typing import Any

import snowmelt


def main(url: str) -> None:
    """Until it is killed."""
    with snowmelt.connect(url) as cluster:
        orders, bills = cluster.fifo("orders", codec="json"), cluster.fifo("bills", codec="json")
        letters = cluster.fifo("letters", codec="json")
        ledger = cluster.fifo("ledger", codec="json")

        def bill(order: Any, step: snowmelt.Step) -> None:
            step.put(bills, {"order": order.value["number"], "sum": order.value["price"] * 1.19})

        def write(paid: Any, step: snowmelt.Step) -> None:
            step.put(letters, f"bill {paid.value['order']}: {paid.value['sum']:.2f}")
            step.put(ledger, paid.value["order"])

        with snowmelt.Worker(bills, write, step=True, threads=2, signals=False):
            snowmelt.Worker(orders, bill, step=True, threads=2).run()


if __name__ == "__main__":
    main(sys.argv[1])
