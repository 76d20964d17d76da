"""Peak memory and time of a training step for growing batches at one token budget; each size in a process of its own.

python scripts/bench/memory.py --preset carp_mini --pairs 256 512 1024 2048
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import torch

from carp.cli.main import quieten_libraries
from carp.config import load_config
from carp.model.carp_model import CarpModel
from carp.model.texts import TokenizedTexts
from carp.training.contrastive import contrastive_backward
from carp.training.information import find_config
from carp.training.setup import make_optimizer


def random_texts(count: int, median: float, longest: int, vocab_size: int) -> TokenizedTexts:
    """Texts of log-normal lengths, as stories and comments have them."""
    lengths = (torch.randn(count) * 0.7 + torch.tensor(median).log()).exp().round().long().clamp(4, longest)
    return TokenizedTexts(torch.randint(5, vocab_size, (int(lengths.sum()),)), lengths)


def measure_step(preset: str, pairs: int, budget: int, longest: int) -> None:
    """One optimiser step (the second one, so that the optimiser's state exists); prints peak MB and seconds."""
    torch.manual_seed(0)
    model = CarpModel(find_config(preset)).train()
    optimizer = make_optimizer(model, load_config(preset).train)
    vocab_size = model.config.passage_config.vocab_size
    for size in (8, pairs):
        passages = random_texts(size, 110, longest, vocab_size)
        critiques = random_texts(size, 25, min(longest, 256), vocab_size)
        began = time.perf_counter()
        contrastive_backward(model, passages, critiques, tokens_per_chunk=budget)
        optimizer.step()
        optimizer.zero_grad()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{pairs} {peak:.0f} {time.perf_counter() - began:.1f}")


def main() -> None:
    quieten_libraries()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="carp_mini")
    parser.add_argument("--pairs", type=int, nargs="+", default=[256, 512, 1024, 2048])
    parser.add_argument("--budget", type=int, default=8192, help="tokens per chunk")
    parser.add_argument("--longest", type=int, default=128, help="tokens of the longest passage")
    parser.add_argument("--one", action="store_true", help="measure the first size in this process")
    options = parser.parse_args()
    if options.one:
        measure_step(options.preset, options.pairs[0], options.budget, options.longest)
        return
    first = None
    print("| pairs | peak MB | against the first | seconds a step | seconds a pair, against the first |")
    print("|---|---|---|---|---|")
    for pairs in options.pairs:
        arguments = ["--preset", options.preset, "--budget", str(options.budget), "--longest", str(options.longest)]
        command = [sys.executable, __file__, "--one", "--pairs", str(pairs), *arguments]
        found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        peak, seconds = float(found[-2]), float(found[-1])
        first = first or (peak, seconds / pairs)
        ratios = f"{peak / first[0]:.3f} | {seconds:.1f} | {seconds / pairs / first[1]:.3f}"
        print(f"| {pairs} | {peak:.0f} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
