"""Runs every benchmark of this folder, and keeps what each measured as JSON.

Each is a program of its own, which can be run alone and has its own options; this one runs them
with their defaults, the long ones in a short form, and writes `bench-results/NAME.json`.
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
BENCHMARKS: dict[str, tuple[str, ...]] = {
    "world": (),
    "loopback": (),
    "store_engines": (),
    "fifo_chaos": ("--seconds", "30"),
    "fifo_backlog": ("--quick",),
    "fifo_idle": ("--quick",),
    "fifo_peers": ("--quick", "--sizes", "100"),
    "limits": ("--rounds", "1"),
    "slow_link": ("--items", "2"),
    "pool_peers": ("--quick",),
    "priority_peers": ("--quick",),
    "baton_peers": ("--quick",),
    "baton_chaos": ("--seconds", "30"),
    "baton_names": ("--names", "2000", "--waves", "1"),
    "pool_chaos": ("--seconds", "20"),
    "pool_kernel": ("--rounds", "1"),
    "pool_scale": ("--rounds", "1", "--pairs", "1,5", "--seconds", "3"),
    "pool_advice": (),
    "arrow_stabilizing": ("--seeds", "300"),
    "arrow_directory": (),
    "spark_rates": ("--rounds", "1"),
    "spark_latency": (),
    "spark_scaling": ("--executors", "1", "2", "--batches", "2"),
    "spark_select": ("--sizes", "100000", "10000000", "--ways", "snowmelt", "gk_select", "sort"),
    "spark_chaos": ("--rounds", "5"),
    "check_spark": ("--operations", "2000000", "--beside", "500000"),
}
"""Each with the options that make it short."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(BENCHMARKS)}; all if none")
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    options = parser.parse_args()
    for name in options.names:
        if name not in BENCHMARKS:
            parser.error(f"{name!r} is no benchmark; there are {', '.join(BENCHMARKS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    failed = [name for name in options.names or BENCHMARKS if not run(name, options.out)]
    return 1 if failed else 0


def run(name: str, out: Path) -> bool:
    print(f"\n{name}", flush=True)
    begin = time.perf_counter()
    command = [sys.executable, str(HERE / f"{name}.py"), "--json", *BENCHMARKS[name]]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if ended.returncode:
        print(f"  ended with {ended.returncode}")
        return False
    measured = json.loads(ended.stdout)
    measured["machine"] = {"python": platform.python_version(), "system": platform.platform()}
    (out / f"{name}.json").write_text(json.dumps(measured, indent=1) + "\n")
    rows = measured.get("rows") or [
        {key: value for key, value in measured.items() if not isinstance(value, dict | list)}
    ]
    for row in rows:
        print("  " + "  ".join(f"{key}={value}" for key, value in row.items()))
    print(f"  in {time.perf_counter() - begin:.0f} s; all of it in {out / name}.json")
    return True


if __name__ == "__main__":
    raise SystemExit(main())
