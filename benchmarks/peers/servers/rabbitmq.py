"""RabbitMQ: one node, or several that are a cluster.

They have a port mapper of their own, so that no other Erlang here is touched.
"""

from pathlib import Path
from typing import Final

from benchmarks.peers.processes import Server, program

from snowmelt.cli.local import free_ports

CONFIG: Final = """
listeners.tcp.default = 127.0.0.1:{port}
log.console = true
log.file = false
log.console.level = warning
disk_free_limit.absolute = 1GB
"""
TOGETHER: Final = "cluster_formation.peer_discovery_backend = classic_config\n"
MEMBER: Final = "cluster_formation.classic_config.nodes.{number} = {name}\n"
# Debian's /usr/sbin/rabbitmq-server becomes another user, and then runs what is here.
SCRIPTS: Final = Path("/usr/lib/rabbitmq/bin")


def installed_version() -> str:
    """From a folder's name, since rabbitmqctl would leave a port mapper behind."""
    names = [folder.name for folder in (SCRIPTS.parent / "lib").glob("rabbitmq_server-*")]
    return names[0].removeprefix("rabbitmq_server-") if names else "?"


class RabbitMQ:
    """Its nodes, whose data is under `n0`, `n1` and so on."""

    def __init__(self, core: int | None = None, nodes: int = 1) -> None:
        self.version = ""
        self._mapper_port, *ports = free_ports(1 + 2 * nodes)
        self.ports, self._between = ports[:nodes], ports[nodes:]
        self.folder = Path()
        self.nodes: list[Server] = []
        self._mapper: Server | None = None
        self._core = core

    @property
    def address(self) -> int:
        return self.ports[0]

    @property
    def pids(self) -> list[int]:
        return [pid for server in self.nodes for pid in server.pids]

    def start(self, folder: Path) -> None:
        package = "rabbitmq-server"
        program("rabbitmq-server", package)
        mapper = program("epmd", package)
        self.version = f"RabbitMQ {installed_version()}"
        self.folder = folder
        (folder / "mapper").mkdir()
        maps = [mapper, "-port", str(self._mapper_port), "-address", "127.0.0.1"]
        self._mapper = Server(maps, folder / "mapper", self._mapper_port, self._core)
        self._mapper.start()
        members = [
            MEMBER.format(number=at + 1, name=self.name(at)) for at in range(len(self.ports))
        ]
        together = TOGETHER + "".join(members) if len(members) > 1 else ""
        for at, port in enumerate(self.ports):  # one after the other: each joins the first
            own = folder / f"n{at}"
            own.mkdir()
            (own / "rabbitmq.conf").write_text(CONFIG.format(port=port) + together)
            (own / "plugins").write_text("[].")
            (own / "environment").touch()
            self.nodes.append(Server([str(SCRIPTS / "rabbitmq-server")], own, port, self._core))
            self.nodes[-1].start(self.environment(at))

    def name(self, at: int) -> str:
        """What Erlang calls it."""
        return f"snowmelt-bench-{at}@localhost"

    def environment(self, at: int) -> dict[str, str]:
        """Of a node, and of the tools that speak with it."""
        own = self.folder / f"n{at}"
        return {
            "HOME": str(self.folder),  # where Erlang makes the cookie that all share
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self.name(at),
            "RABBITMQ_DIST_PORT": str(self._between[at]),
            "RABBITMQ_MNESIA_BASE": str(own / "data"),
            "RABBITMQ_LOG_BASE": str(own / "logs"),
            "RABBITMQ_CONFIG_FILE": str(own / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(own / "environment"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(own / "config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(own / "plugins"),
            "RABBITMQ_ALLOW_INPUT": "1",  # the shell becomes the server, and its id the server's
            "RABBITMQ_SERVER_START_ARGS": "-noinput",
        }

    def stop(self) -> None:
        for server in (*reversed(self.nodes), self._mapper):
            if server is not None:
                server.stop()
