"""`snowmelt found`: a new cluster's identity, before any node of it starts."""

import json
from pathlib import Path
from typing import Annotated

import typer

from snowmelt.cli.node import read_coordinator
from snowmelt.core.errors import BadOption
from snowmelt.core.names import node_id
from snowmelt.runtime.folders import found_in_etcd, found_on_disk


def found(
    data: Annotated[
        Path | None, typer.Option(help="A new folder for the coordinator; made here.")
    ] = None,
    id: Annotated[str, typer.Option(help="That node's name in the cluster.")] = "n1",  # noqa: A002
    cluster: Annotated[
        str, typer.Option(help="The cluster's name, as for the nodes; etcd keeps it.")
    ] = "snowmelt",
    coordinator: Annotated[
        str,
        typer.Option(help="disk, or etcd://HOST:PORT/PREFIX (new, without --data)."),
    ] = "disk",
    etcd_user: Annotated[str, typer.Option(help="A user of etcd.")] = "",
    etcd_password_file: Annotated[
        Path | None, typer.Option(help="File with that user's password.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Begin a new cluster. Its identity is written into a new folder, or into etcd.

    Nodes never do so by themselves: a folder with nothing in it may be a volume that is missing.
    """
    place = read_coordinator(coordinator, etcd_user, etcd_password_file)
    if place is not None:
        if data is not None:
            raise BadOption("--data", str(data), "nothing, where etcd decides: nodes join by etcd")
        identity, then = found_in_etcd(place, cluster), f"node --coordinator {place.url}"
    elif data is None:
        raise BadOption("--data", "left out", "a new folder, of the node that will decide")
    else:
        identity, then = found_on_disk(data, node_id(id)), f"node --data {data}"
    if as_json:
        print(json.dumps({"cluster": identity}))
    else:
        print(f"Cluster {identity} is founded. Start its first node: snowmelt {then}")
