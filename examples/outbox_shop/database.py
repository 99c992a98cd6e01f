"""The shop's own database: PostgreSQL where a DSN is given, or a file of SQLite."""

import sqlite3
from contextlib import closing
from typing import Any, NamedTuple

from snowmelt_doors.outbox import SCHEMA, SQLITE_SCHEMA

SHOP = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL);
CREATE TABLE bills (order_id INTEGER NOT NULL, customer TEXT NOT NULL);
CREATE TABLE inbox (
    queue    TEXT NOT NULL,
    position BIGINT NOT NULL,
    at       TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (queue, position)
);
"""


class Database(NamedTuple):
    """A connection, and what stands for a value in its SQL."""

    connection: Any
    mark: str

    def run(self, sql: str, *values: Any) -> int:
        """Runs a statement, with %s for each value; how many rows it wrote."""
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(sql.replace("%s", self.mark), values)
            return int(cursor.rowcount)

    def count(self, table: str) -> int:
        """How many rows a table has."""
        with closing(self.connection.cursor()) as cursor:
            cursor.execute(f"SELECT count(*) FROM {table}")  # noqa: S608  # it is one of ours
            return int(cursor.fetchone()[0])

    def make(self) -> None:
        """Makes the tables."""
        schema = SHOP + (SCHEMA if self.mark == "%s" else SQLITE_SCHEMA)
        for statement in filter(str.strip, schema.split(";")):
            self.run(statement)
        self.connection.commit()


def opened(where: str) -> Database:
    """A database by its DSN, or the path of a file."""
    if where.startswith("postgres"):
        import psycopg  # noqa: PLC0415  # a file of SQLite needs none

        return Database(psycopg.connect(where), "%s")
    return Database(sqlite3.connect(where, timeout=30), "?")
