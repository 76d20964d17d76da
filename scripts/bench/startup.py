"""How long commands and imports take to start, sentence-transformers' import beside them.

    python scripts/bench/startup.py --rounds 5

Wall seconds of a process from its start to its end, output thrown away; the commands take turns, after one round that
fills the disk's cache and is not counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from workers import machine_line, markdown_table, ratio

CARP = str(Path(sys.executable).parent / "carp")
REFERENCE = 'python -c "import sentence_transformers"'
COMMANDS = {
    "carp --help": [CARP, "--help"],
    'python -c "import carp"': [sys.executable, "-c", "import carp"],
    "carp score --help": [CARP, "score", "--help"],
    'python -c "import carp; carp.CarpModel"': [sys.executable, "-c", "import carp; carp.CarpModel"],
    REFERENCE: [sys.executable, "-c", "import sentence_transformers"],
}


def wall_seconds(command: list[str]) -> float:
    """Seconds of one run.

    Raises:
        subprocess.CalledProcessError: if the command fails.
    """
    began = time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of every command, after one that is not")
    options = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for i in range(options.rounds + 1):
        for name, command in COMMANDS.items():
            found = wall_seconds(command)
            if i > 0:
                seconds[name].append(found)
    rows = [
        [f"`{name}`", f"{median(found):.2f}", f"{min(found):.2f}", f"{ratio(found, seconds[REFERENCE]):.3f}"]
        for name, found in seconds.items()
    ]
    print(f"{machine_line('sentence-transformers')}\n")
    print(f"Median of {options.rounds} rounds; the ratio is the median over rounds:\n")
    print(markdown_table(["command", "seconds", "fastest", "time / sentence-transformers'"], rows))


if __name__ == "__main__":
    main()
