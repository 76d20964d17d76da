"""How many pairs a second are prepared: quote masking alone on one core, and the whole without anonymisation.

    python scripts/bench/prepare.py ../shared/data/critiques.jsonl.gz --processes 2

Masking is measured on passages of 300 words and critiques of 47, every passage a different one. The whole runs as
`carp prepare --no-anonymize` does, starting its processes included; give it enough records that this does not count.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from itertools import islice
from pathlib import Path
from statistics import median

from workers import machine_line, markdown_table

from carp.cli.main import quieten_libraries
from carp.data.pairs import read_pairs
from carp.data.preparation.masking import mask_quotes
from carp.data.preparation.options import PreparationOptions

PASSAGE_WORDS, CRITIQUE_WORDS = 300, 47


def masking_rates(raw: str, count: int, rounds: int) -> tuple[list[float], float]:
    """Pairs per second of every round, and the share of pairs in which something was masked."""
    pairs = []
    for i, pair in enumerate(islice(read_pairs(raw), count)):
        words = pair.passage.split(" ")
        start = random.Random(i).randrange(max(1, len(words) - PASSAGE_WORDS))
        critique = (pair.critique.split(" ") * CRITIQUE_WORDS)[:CRITIQUE_WORDS]
        pairs.append((" ".join(critique), " ".join(words[start : start + PASSAGE_WORDS])))
    rates, masked = [], 0
    for _ in range(rounds):
        began = time.perf_counter()
        masked = sum(mask_quotes(critique, passage).words > 0 for critique, passage in pairs)
        rates.append(len(pairs) / (time.perf_counter() - began))
    return rates, masked / len(pairs)


def whole_rate(raw: str, processes: int) -> tuple[float, int]:
    """Pairs per second of the whole without anonymisation, and the number of pairs."""
    # Here, because the processes that it starts import this file; those of the command import none of the libraries.
    from carp.data.preparation.pipeline import prepare

    options = PreparationOptions(anonymize=False)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        counts = prepare([raw], Path(folder) / "out", options, processes=processes)
        return counts["kept"] / (time.perf_counter() - began), counts["kept"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", help="raw stories with comments")
    parser.add_argument("--count", type=int, default=5000, help="pairs for masking")
    parser.add_argument("--rounds", type=int, default=5, help="of masking; the whole runs once")
    parser.add_argument("--processes", type=int, default=2, help="for the whole")
    options = parser.parse_args()
    quieten_libraries()
    print(f"{machine_line()}\n")
    rates, share = masking_rates(options.raw, options.count, options.rounds)
    whole, pairs = whole_rate(options.raw, options.processes)
    rows = [
        [f"quote masking, one core ({share:.0%} of the pairs have a quote)", f"{median(rates):.0f}"],
        [f"the whole without anonymisation, {options.processes} processes, {pairs} pairs", f"{whole:.0f}"],
    ]
    print(markdown_table(["step", "pairs/s"], rows))


if __name__ == "__main__":
    main()
