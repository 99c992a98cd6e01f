"""Sells, relays and bills: each may be a process of its own, and may be killed at any time."""

import argparse
import json
import os
import time
from contextlib import suppress
from typing import Any

import snowmelt
from outbox_shop.database import Database, opened
from snowmelt_doors.outbox import OutboxRelay

QUEUE = "orders"


def sell(database: Database, first: int, stop: int) -> None:
    """Writes orders, and that each is to be billed, in one transaction."""
    for number in range(first, stop):
        customer = f"customer-{number % 7}"
        body = json.dumps({"order": number, "customer": customer}).encode()
        database.run("INSERT INTO orders VALUES (%s, %s)", number, customer)
        database.run(
            "INSERT INTO outbox (queue, key, body) VALUES (%s, %s, %s)", QUEUE, customer, body
        )
        if number % 10 == 9:  # the card was refused: neither order nor bill
            database.connection.rollback()
        else:
            database.connection.commit()


def relay(database: Database, cluster: Any, idle: float | None) -> None:
    """Brings the outbox's rows into their queues, until none came for so many seconds."""
    outbox = OutboxRelay(database.connection, cluster, [QUEUE], mark=database.mark)
    if idle is None:
        outbox.run()
    end = time.monotonic() + idle
    while time.monotonic() < end:
        if outbox.turn():
            end = time.monotonic() + idle
        else:
            time.sleep(0.1)


def bill(database: Database, cluster: Any, idle: float | None) -> None:
    """Writes a bill for each order, once, and acknowledges it."""
    for item in cluster.fifo(QUEUE, codec="json").consume(timeout=idle):
        took = database.run(
            "INSERT INTO inbox (queue, position) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            QUEUE,
            item.position,
        )
        if took:  # else it was billed, and only its acknowledgement was lost
            order = item.value
            database.run("INSERT INTO bills VALUES (%s, %s)", order["order"], order["customer"])
        database.connection.commit()
        with suppress(snowmelt.LeaseLost):  # another has it now, and will find the row
            item.ack()


def main(arguments: list[str] | None = None) -> None:
    """Runs what is asked for; all of it when nothing is."""
    parser = argparse.ArgumentParser(description=__doc__)
    said = parser.add_argument
    said("what", nargs="?", choices=("make", "sell", "relay", "bill", "all"), default="all")
    said("--database", default="shop.db", help="a DSN (postgresql://…), or a file of SQLite")
    said("--cluster", default=os.environ.get("SNOWMELT_URL"), help="its URL; or ./queues")
    said("--first", type=int, default=0, help="the number of the first order")
    said("--count", type=int, default=100, help="how many orders")
    said("--idle", type=float, help="ends when nothing came for so many seconds")
    options = parser.parse_args(arguments)
    database, idle, every = opened(options.database), options.idle, options.what == "all"
    if options.what in {"make", "all"}:
        database.make()
    if options.what in {"sell", "all"}:
        sell(database, options.first, options.first + options.count)
    if options.what in {"relay", "bill", "all"}:
        place = snowmelt.connect(options.cluster) if options.cluster else snowmelt.open("./queues")
        with place as cluster:
            if options.what != "bill":
                relay(database, cluster, 0.5 if every else idle)
            if options.what != "relay":
                bill(database, cluster, 0.5 if every else idle)
    if every:
        print(f"{database.count('orders')} orders, {database.count('bills')} bills")
    database.connection.close()


if __name__ == "__main__":
    main()
