"""The demo, as `make demo` runs it, with fewer items."""

from cli.program import snowmelt


def test_the_demo_loses_its_master_and_nothing_else() -> None:
    ended = snowmelt("demo", "--items", "6000")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "6,000 items came, in order: 0 lost" in ended.stdout
    assert "in term 2" in ended.stdout
