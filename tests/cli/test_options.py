"""Wrong options: exit code 2, the option, the value and what is allowed; nothing on stdout."""

from pathlib import Path

import pytest

from cli.program import snowmelt

NODE = ("node", "--id", "n1", "--data", "{tmp}/n1")
WRONG = [
    ((*NODE, "--listen", "nowhere"), ("--listen", "'nowhere'", "host:port")),
    ((*NODE, "--listen", "127.0.0.1:99999"), ("--listen", "127.0.0.1:99999", "host:port")),
    ((*NODE, "--listen", "0.0.0.0:0"), ("--listen", "'0.0.0.0:0'", "loopback", "--token-file")),
    ((*NODE, "--join", "x"), ("--join", "'x'", "host:port")),
    ((*NODE, "--advertise", "x"), ("--advertise", "'x'", "host:port")),
    ((*NODE, "--log", "loud"), ("--log", "'loud'", "debug, info, warning, error")),
    ((*NODE, "--heartbeat", "0"), ("--heartbeat", "0.0", "0.01 to 3600")),
    ((*NODE, "--heartbeat", "nan"), ("--heartbeat", "nan", "0.01 to 3600")),
    ((*NODE, "--heartbeat", "soon"), ("--heartbeat", "'soon'", "float")),
    ((*NODE, "--misses", "0"), ("misses", "0", "1 to 100")),
    ((*NODE, "--limit", "connections=0"), ("connections", "0", "1 to 4294967295")),
    ((*NODE, "--limit", "greeting_seconds=nan"), ("greeting_seconds", "nan", "0.001 to")),
    ((*NODE, "--limit", "frame_bytes=much"), ("frame_bytes", "'much'")),
    (
        (*NODE, "--limit", "patience=1"),
        ("--limit", "'patience=1'", "connections, strangers, frame_bytes"),
    ),
    ((*NODE, "--token-file", "{tmp}/none"), ("--token-file", "none", "readable text file")),
    ((*NODE, "--token-file", "{tmp}/empty"), ("--token-file", "empty", "this one is empty")),
    ((*NODE, "--tls-key", "{tmp}/empty"), ("--tls-authority", "None", "all three or none")),
    (("node", "--id", "c:1", "--data", "{tmp}/n1"), ("node id", "'c:1'", "1 to 64 of")),
    (("node", "--id", "n1"), ("--data",)),
    (("up", "--nodes", "0"), ("--nodes", "0", "1 to 99")),
    (("up", "--nodes", "many"), ("--nodes", "'many'", "int")),
    (("up", "--port", "65535"), ("--port", "65535", "1 to 65532")),
    (("up", "--heartbeat", "inf"), ("--heartbeat", "inf", "0.01 to 3600")),
    (("demo", "--nodes", "1"), ("--nodes", "1", "2 to 20")),
    (("demo", "--heartbeat", "-1"), ("--heartbeat", "-1.0", "0.01 to 3600")),
    (("ping", "--url", "http://x"), ("url", "'http://x'", "snowmelt://HOST:PORT")),
    (("ping", "--count", "0"), ("--count", "0", "1 or more")),
    (("ping", "--size", "-1"), ("--size", "-1", "0 to 67108864")),
    (("ping", "--timeout", "nan"), ("--timeout", "nan", "at most 86400 seconds")),
    (("status", "--timeout", "inf"), ("--timeout", "inf", "at most 86400 seconds")),
    (("forget", "not a name"), ("node id", "'not a name'", "1 to 64 of")),
    (("forget",), ("Missing argument", "node")),
    (("sim", "--protocol", "paxos", "--seed", "1"), ("paxos", "echo", "membership")),
    (("sim", "--protocol", "echo"), ("--seed", "--seeds A:B")),
    (("sim", "--protocol", "echo", "--seed", "-1"), ("--seed", "-1", "0 or more")),
    (("sim", "--protocol", "echo", "--seed", "1", "--seeds", "1:2"), ("--seed", "one of the two")),
    (("sim", "--protocol", "echo", "--seeds", "9:1"), ("--seeds", "'9:1'", "A below B")),
    (("sim", "--protocol", "echo", "--seed", "1", "--jobs", "-1"), ("--jobs", "-1", "0 or more")),
    (("sim", "--protocol", "echo", "--seed", "1", "--plant", "x"), ("--plant", "'x'", "allowed")),
    (("sim", "--protocol", "echo", "--seed", "1", "--faults", "x"), ("faults", "'x'", "allowed")),
    (("check", "{tmp}/none"), ("HISTORY", "none", "a file of operations")),
    (("check", "{tmp}/empty", "--property", "x"), ("property", "'x'", "fifo")),
    (("--nonsense",), ("--nonsense",)),
    (("nonsense",), ("nonsense",)),
]


@pytest.mark.parametrize(("arguments", "told"), WRONG, ids=lambda given: " ".join(given)[-40:])
def test_a_wrong_option_is_named_with_its_value_and_what_is_allowed(
    tmp_path: Path, arguments: tuple[str, ...], told: tuple[str, ...]
) -> None:
    (tmp_path / "empty").touch()
    ended = snowmelt(*(one.replace("{tmp}", str(tmp_path)) for one in arguments))
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    for word in told:
        assert word in ended.stderr, ended.stderr
    assert not (tmp_path / "n1").exists()
