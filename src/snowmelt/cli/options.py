"""The options that say which cluster is asked, or which folder; most commands have them.

`commands.py` makes an option of each field.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from snowmelt.cli.node import read_token
from snowmelt.client.cluster import Cluster
from snowmelt.client.connection.clients import Clients
from snowmelt.client.connection.url import ClusterURL, moved, read
from snowmelt.client.embedded.face import EmbeddedCluster
from snowmelt.client.embedded.face import open as open_folder
from snowmelt.core.errors import BadOption
from snowmelt.core.names import Address

URL = typer.Option(help="Where the cluster is.", envvar="SNOWMELT_URL")
DATA = typer.Option(help="A folder with queues, in place of a cluster.", envvar="SNOWMELT_DATA")
TOKEN = typer.Option(help="File with the token, or the user's secret; or SNOWMELT_TOKEN_FILE.")
USER = typer.Option(help="Whose secret that is, where the cluster has users; or SNOWMELT_USER.")
TIMEOUT = typer.Option(help="Seconds to wait for the answer at most.")
QueueName = Annotated[str, typer.Argument(help="The queue's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
DEFAULT_URL: Final = "snowmelt://127.0.0.1:4410"


class ClusterOptions(msgspec.Struct, frozen=True):
    """The options of commands that need a cluster."""

    url: Annotated[str, URL] = DEFAULT_URL
    token_file: Annotated[Path | None, TOKEN] = None
    timeout: Annotated[float, TIMEOUT] = 10.0
    user: Annotated[str, USER] = ""

    def place(self) -> ClusterURL:
        """Where the cluster is, and how to be let in."""
        check_timeout(self.timeout)
        return read(self.url, read_token(self.token_file) or None, self.user or None)

    def open(self) -> Cluster:
        """To be closed by whoever opens it."""
        check_timeout(self.timeout)
        return Cluster(self.url, read_token(self.token_file) or None, self.user or None)

    def member(self, address: Address, timeout: float) -> "ClusterOptions":
        """The same, for the node at this address alone."""
        return msgspec.structs.replace(self, url=moved(self.url, address), timeout=timeout)

    @contextmanager
    def clients(self) -> Iterator[Clients]:
        """For what no face has a method for."""
        clients = Clients(self.place())
        try:
            yield clients
        finally:
            clients.close()


class PlaceOptions(msgspec.Struct, frozen=True):
    """The options of commands that take a cluster or a folder."""

    url: Annotated[str, URL] = DEFAULT_URL
    data: Annotated[Path | None, DATA] = None
    token_file: Annotated[Path | None, TOKEN] = None
    timeout: Annotated[float, TIMEOUT] = 10.0
    user: Annotated[str, USER] = ""

    def open(self) -> Cluster | EmbeddedCluster:
        """To be closed by whoever opens it."""
        if self.data is None:
            return ClusterOptions(self.url, self.token_file, self.timeout, self.user).open()
        check_timeout(self.timeout)
        return open_folder(self.data, timeout=self.timeout)


CLUSTER: Final = ClusterOptions()
HERE: Final = PlaceOptions()


def check_timeout(timeout: float) -> None:
    """Refuses a time-out in which nothing can happen."""
    if not 0 < timeout <= 86_400:
        raise BadOption("--timeout", timeout, "more than 0, at most 86400 seconds")
