"""Writes figures into BENCHMARKS.md: `make bench | tee figures.jsonl | python3 tools/figures.py`.

Between the markers of the document stands one table per benchmark, with its day and machine; those that were not run stay. What stands around them is
written by hand.
"""

import datetime
import json
import os
import pathlib
import platform
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- figures: written by tools/figures.py -->\n", "<!-- end of figures -->\n"
HEADING = "### "


def main():
    figures = [json.loads(line) for line in sys.stdin if line.startswith("{")]
    if not figures:
        raise SystemExit("figures.py: no figures on standard input")
    document = ROOT / "BENCHMARKS.md"
    before, rest = document.read_text().split(BEGIN)
    written, after = rest.split(END)
    known = {name: HEADING + section for section in written.split(HEADING)[1:] for name in [section.split("\n")[0]]}
    text = "".join({**known, **tables(figures)}.values())
    document.write_text(before + BEGIN + "\n" + text + END + after)


def machine():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return (f"{datetime.date.today()}, {os.cpu_count()} cores ({cpu.group(1) if cpu else platform.machine()}), "
            f"{round(int(memory.group(1)) / 2**20)} GiB, Linux {platform.release().split('-')[0]}.")


def tables(figures):
    """By the name of their benchmark."""
    found = {}
    for bench in dict.fromkeys(figure["bench"] for figure in figures):
        rows = [figure for figure in figures if figure["bench"] == bench]
        found[bench] = (f"{HEADING}{bench}\n\n{machine()}\n\n"
                        "| figure | n | value | limit | | peer |\n|---|---:|---:|---:|---|---|\n"
                        + "".join(row(figure) for figure in rows) + "\n")
    return found


def row(figure):
    limit, peer = figure["limit"], figure["peer"]
    verdict = {True: "holds", False: "**missed**", None: ""}[figure["ok"]]
    told = f"{number(peer['value'])} {peer['name']}" if peer else ""
    return (f"| {figure['figure']} | {figure['n']:,} | {number(figure['value'])} {figure['unit']} | "
            f"{'' if limit is None else number(limit)} | {verdict} | {told} |\n")


def number(value):
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    main()
