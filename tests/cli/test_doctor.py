"""`snowmelt doctor` finds what is wrong with a machine or a cluster, and says the way out."""

import datetime as dt
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from cli.conftest import Told
from snowmelt import __version__
from snowmelt.cli import main
from snowmelt.cli.local import LocalCluster, free_port
from snowmelt.runtime import checkup
from snowmelt.runtime.checkup import Health

Findings = dict[str, dict[str, str]]
Doctor = Callable[..., tuple[int, Findings]]


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """Its exit code, and what it found, by what it is about."""

    def ask(*words: object) -> tuple[int, Findings]:
        monkeypatch.setattr(sys, "argv", ["snowmelt", "doctor", "--json", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main.run()
        found = json.loads(capsys.readouterr().out)
        return int(ended.value.code or 0), {one["about"]: one for one in found}

    return ask


def here(folder: Path) -> tuple[object, ...]:
    return ("--data", folder / "n1", "--listen", f"127.0.0.1:{free_port()}")


def secret(folder: Path, mode: int = 0o600) -> Path:
    file = folder / "token"
    file.write_text("open sesame\n")
    file.chmod(mode)
    return file


class Issued:
    """TLS files of a node."""

    def __init__(self, folder: Path, name: str = "n1", days: int = 365) -> None:
        authority = trustme.CA()
        ends = dt.datetime.now(dt.UTC) + dt.timedelta(days=days, minutes=1)
        shown = authority.issue_cert(name, not_after=ends)
        self.authority, self.chain = folder / "ca.pem", folder / "n1.pem"
        self.key = folder / "n1.key"
        authority.cert_pem.write_to_path(self.authority)
        shown.cert_chain_pems[0].write_to_path(self.chain)
        shown.private_key_pem.write_to_path(self.key)
        self.key.chmod(0o600)

    def options(self) -> tuple[object, ...]:
        files = ("--tls-certificate", self.chain, "--tls-key", self.key)
        return ("--tls-authority", self.authority, *files)


def test_a_machine_that_is_well_is_said_to_be_so(tmp_path: Path, doctor: Doctor) -> None:
    tls = Issued(tmp_path)
    words = (*here(tmp_path), "--id", "n1", "--token-file", secret(tmp_path), *tls.options())
    code, found = doctor(*words)
    assert [one for one in found.values() if one["verdict"] == "bad"] == []
    assert code == 0
    assert __version__ in found["software"]["said"]
    assert found[f"--tls-certificate {tls.chain}"]["said"] == "good for n1; it lasts 365 days"
    assert found[f"--tls-key {tls.key}"]["verdict"] == "well"
    assert found[f"--data {tmp_path / 'n1'}"]["said"] == "it will be made"
    assert not (tmp_path / "n1").exists()


def test_secrets_that_others_may_read_or_replace_are_found(tmp_path: Path, doctor: Doctor) -> None:
    file = secret(tmp_path, 0o640)
    code, found = doctor(*here(tmp_path), "--token-file", file)
    assert code == 1
    assert found[f"--token-file {file}"]["way_out"] == f"chmod 600 {file}"
    file.chmod(0o600)
    tmp_path.chmod(0o777)
    code, found = doctor(*here(tmp_path), "--token-file", file)
    assert code == 1
    assert found[f"--token-file {file}"]["said"].startswith("others can replace it")
    tmp_path.chmod(0o1777)
    assert doctor(*here(tmp_path), "--token-file", file)[0] == 0


def test_a_file_of_users_that_no_node_can_use_is_found(tmp_path: Path, doctor: Doctor) -> None:
    file = secret(tmp_path)
    file.write_text("ops 0123456789abcdef admin\nn 0123456789abcdef node\n")
    code, found = doctor(*here(tmp_path), "--users", file)
    assert code == 0
    assert found[f"users in {file}"]["said"] == "2, and nodes are n"
    file.write_text("ops 0123456789abcdef admin\n")
    code, found = doctor(*here(tmp_path), "--users", file)
    assert code == 1
    assert "a user with the right node" in found[f"users in {file}"]["said"]


def test_a_file_that_is_not_there_is_named(tmp_path: Path, doctor: Doctor) -> None:
    code, found = doctor(*here(tmp_path), "--token-file", tmp_path / "none")
    assert code == 1
    assert found[f"--token-file {tmp_path / 'none'}"]["said"] == "No such file or directory"


def test_a_certificate_of_another_name_or_authority_is_found(
    tmp_path: Path, doctor: Doctor
) -> None:
    tls = Issued(tmp_path)
    about = f"--tls-certificate {tls.chain}"
    code, found = doctor(*here(tmp_path), "--id", "n2", *tls.options())
    assert code == 1
    assert found[about]["said"] == "it is good for n1, not for n2"
    trustme.CA().cert_pem.write_to_path(tls.authority)
    code, found = doctor(*here(tmp_path), "--id", "n1", *tls.options())
    assert code == 1
    assert "certificate" in found[about]["said"]
    tls.key.write_text("no key")
    assert doctor(*here(tmp_path), *tls.options())[1][about]["verdict"] == "bad"


@pytest.mark.parametrize(
    ("days", "verdict", "said"),
    [
        (12, "warning", "good for n1; it ends in 12 days"),
        (-2, "bad", "certificate has expired"),
    ],
)
def test_a_certificate_that_ends_is_found(
    tmp_path: Path, doctor: Doctor, days: int, verdict: str, said: str
) -> None:
    tls = Issued(tmp_path, days=days)
    code, found = doctor(*here(tmp_path), "--id", "n1", *tls.options())
    one = found[f"--tls-certificate {tls.chain}"]
    assert (one["verdict"], one["said"]) == (verdict, said)
    assert code == (1 if verdict == "bad" else 0)


def test_where_it_may_not_or_cannot_listen_is_found(doctor: Doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        found = doctor("--listen", where)[1]
        assert found[f"--listen {where}"]["said"] == "Address already in use"
    code, found = doctor("--listen", "0.0.0.0:4410")
    assert code == 1
    assert found["--listen 0.0.0.0:4410"]["verdict"] == "bad"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says of what kind a disk is")
def test_a_disk_that_forgets_is_found(doctor: Doctor) -> None:
    shared = Path("/dev/shm")
    code, found = doctor("--data", shared / "no-such-node")
    assert code == 1
    assert "nothing in it outlives a restart" in found[f"disk of {shared}"]["said"]


def test_a_nearly_full_disk_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = checkup.shutil.disk_usage(tmp_path)._replace(total=100 << 30, free=1 << 30)
    monkeypatch.setattr(checkup.shutil, "disk_usage", lambda _: usage)
    found = {one.about: one for one in checkup.data_folder(tmp_path)}
    assert found[f"disk of {tmp_path}"].verdict is Health.BAD
    assert found[f"disk of {tmp_path}"].said.startswith("1.0 GiB of 100.0 GiB are free")


def test_what_the_system_does_not_say_is_not_known(tmp_path: Path) -> None:
    assert checkup.shared_memory(tmp_path / "none").verdict is Health.UNKNOWN


def test_a_node_lets_itself_open_as_many_files_as_it_may() -> None:
    program = (
        "import resource as r; from snowmelt.runtime.limits import raise_open_files;"
        "most = r.getrlimit(r.RLIMIT_NOFILE)[1]; r.setrlimit(r.RLIMIT_NOFILE, (256, most));"
        "raise_open_files({}); print(r.getrlimit(r.RLIMIT_NOFILE)[0])"
    )
    for connections, allowed in ((100, "1100"), (10, "1010")):
        words = [sys.executable, "-c", program.format(connections)]
        told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        assert told.stdout.strip() == allowed


def test_each_node_of_a_cluster_is_asked(tmp_path: Path, doctor: Doctor) -> None:
    with LocalCluster(2, tmp_path, 5.0) as cluster:  # who is silent stays in the view so long
        cluster.start()
        code, found = doctor("--url", cluster.url)
        assert code == 0
        assert [one.partition(" ")[0] for one in found] == ["n1", "n2"]
        for one in found.values():
            assert one["said"].startswith(f"current, version {__version__}, answers in ")
        os.kill(cluster.nodes[1].pid, signal.SIGSTOP)
        try:
            code, found = doctor("--url", cluster.nodes[0].url, "--timeout", "2")
        finally:
            os.kill(cluster.nodes[1].pid, signal.SIGCONT)
        away = [one for about, one in found.items() if about.startswith("n2 ")]
        assert code == 1
        assert [one["verdict"] for one in away] == ["bad"]


def test_a_cluster_of_users_is_asked_by_one_of_them(
    tmp_path: Path, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = secret(tmp_path)
    file.write_text("ops 0123456789abcdef admin node\n")
    own = tmp_path / "ops.secret"
    own.write_text("0123456789abcdef\n")
    monkeypatch.setenv("SNOWMELT_USERS", str(file))
    monkeypatch.setenv("SNOWMELT_USER", "ops")
    monkeypatch.setenv("SNOWMELT_TOKEN", "0123456789abcdef")
    with LocalCluster(1, tmp_path / "cluster", 0.5) as cluster:
        cluster.start()
        for name in ("USER", "TOKEN"):
            monkeypatch.delenv(f"SNOWMELT_{name}")
        code, found = doctor("--url", cluster.url, "--user", "ops", "--token-file", own)
    assert (code, [one["verdict"] for one in found.values()]) == (0, ["well"])


def test_nobody_there_is_a_finding(doctor: Doctor) -> None:
    url = f"snowmelt://127.0.0.1:{free_port()}"
    code, found = doctor("--url", url, "--timeout", "1")
    assert code == 1
    assert found[f"--url {url}"]["way_out"] == "start it, or mend the URL"


def test_people_get_a_table(run: Callable[..., Told]) -> None:
    code, out, _ = run("doctor", "--listen", f"127.0.0.1:{free_port()}")
    assert code in (0, 1)  # of the machine that tests run on, more is not known
    assert "way out" in out
    assert "open files" in out
