"""Reads Prometheus' text format as its grammar has it, and refuses all else."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
HEAD = re.compile(rf"# (HELP|TYPE) ({NAME}) (.+)")
SUFFIXES = {"summary": ("_sum", "_count"), "gauge": ("",), "counter": ("",)}


def read(text: str) -> dict[str, float]:
    """Each sample by its name and labels."""
    assert text.endswith("\n")
    samples: dict[str, float] = {}
    kinds: dict[str, str] = {}
    now = ""
    for line in text.splitlines():
        head = HEAD.fullmatch(line)
        if head:
            word, name, rest = head.groups()
            if word == "HELP":
                assert name not in kinds, f"{name} comes twice"
                now = name
            else:
                assert name == now, f"the type of {name} stands apart from its help"
                kinds[name] = rest
                assert name.endswith("_total") == (rest == "counter"), name
            continue
        found = SAMPLE.fullmatch(line)
        assert found, line
        name, labels, value = found.groups()
        assert name in [now + one for one in SUFFIXES[kinds[now]]], f"{name} stands under {now}"
        key = name + (f"{{{labels}}}" if labels else "")
        assert key not in samples, f"{key} comes twice"
        samples[key] = float(value)
    return samples
