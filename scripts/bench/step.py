"""A training step of carp against its peers: the same model, weights, pairs and loss, each method in its own process.

    python scripts/bench/step.py --pairs 32 256 1024 --rounds 5
    python scripts/bench/step.py --pairs 256 1024 --rounds 5 --data pairs.jsonl.gz
    python scripts/bench/step.py --device cuda --bf16 --preset carp_large --pairs 2048 --rounds 20 \\
        --methods carp carp0 st st-best --budgets 16384 65536

Methods:

carp        carp.contrastive_backward, which keeps the graphs that memory holds (33% of what is free at the start)
carp0       the same with graph_bytes=0: every text is embedded twice
whole       one padded batch, ordinary autograd; only up to --whole-up-to pairs and where memory holds its graph
gradcache   the two-pass method of GradCache, written plainly: padded chunks of 32 in the order of the batch
st          sentence-transformers' CachedMultipleNegativesRankingLoss, symmetric, two encoders by Router, its defaults
st-best     the same with pairs sorted by the passage's length, mini_batch_num_tokens, the loss in one piece

First every method computes the gradient of the same 24 pairs without dropout, in small chunks, so that all of them
are cut; it must agree with that of `whole`, or nothing is timed. Then, for each size, every method warms up and is
timed in turn with the others (after a step over some pairs that is not timed), on the same batch, with dropout. A step
is loss, gradients, one update by fused AdamW and zero_grad. Not in it, for any method: tokenising, sorting the pairs
(st-best) and padding them into tensors. Planning the chunks and finding false negatives, which only carp does, are
in it.

Ctrl-C ends the rounds; the table is then of those that are whole.

Every worker holds 4 copies of the model and its activations at once with the others: --methods lets fewer run.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean, median

import numpy as np
import torch
from step_methods import METHODS, Checked, Measured, Setup
from step_pairs import SIDES, Pairs, random_pairs, real_pairs
from torch import Tensor
from workers import Worker, WorkerError, in_turn, machine_line, markdown_table, ratio, running

from carp.cli.main import quieten_libraries
from carp.model.configuration import CarpConfig
from carp.model.cpu_layers import CpuLinear
from carp.model.tower import TextTower
from carp.training.information import find_config

CHECKED_PAIRS = 24
CHECKED_CHUNK_PAIRS, CHECKED_CHUNK_TOKENS = 8, 1024  # small, so that the check sees several chunks
TOLERANCE = 1e-4  # relative, in the Euclidean norm; float32 has 6e-8, the sums here are over some 10,000 terms
TUNING_PAIRS = {"cpu": 128, "cuda": 1024}
MATRIX = {"cpu": 2048, "cuda": 8192}
WINDOW = 5.0  # seconds of matrix products before each turn
PAPERS_STEPS = 1400  # CARP, section 3: some 1,400 steps of 2048 pairs


def check_gradients(setup: Setup, pairs: Pairs, names: Sequence[str]) -> None:
    """Compare every method's loss and gradient with those of the whole batch; prints a table.

    The difference of a gradient is the Euclidean norm of (method - whole) / that of whole: over all parameters that
    both train, and for each of three tensors the worse of the two towers'. Methods are run one after the other, in
    float32.

    Raises:
        SystemExit: if one differs by more than ``TOLERANCE``, or does not train a parameter other than the temperature.
    """
    setup = replace(setup, chunk_pairs=CHECKED_CHUNK_PAIRS, chunk_tokens=CHECKED_CHUNK_TOKENS, bf16=False)
    reference: Checked = _checked("whole", setup, pairs)
    rows, wrong = [], []
    for name in names:
        if name == "whole":
            continue
        found = _checked(name, setup, pairs)
        untrained = reference.gradients.keys() ^ found.gradients.keys()
        differences = {"loss": abs(found.loss - reference.loss) / abs(reference.loss)}
        differences |= _differences(found.gradients, reference.gradients)
        rows.append([name, *(f"{d:.1e}" for d in differences.values()), ", ".join(sorted(untrained)) or "-"])
        if not max(differences.values()) <= TOLERANCE or not untrained <= {"logit_scale"}:
            wrong.append(name)
    header = ["method", "loss", "all gradients", "word embeddings", "first layer", "projection", "not trained"]
    print(f"Gradient of {len(pairs.passages)} pairs against `whole`, relative; at most {TOLERANCE:.0e}:\n")
    print(markdown_table(header, rows), "\n", sep="", flush=True)
    if wrong:
        raise SystemExit(f"the gradients of {', '.join(wrong)} are not those of the whole batch: nothing is timed")


def _checked(name: str, setup: Setup, pairs: Pairs) -> Checked:
    with running({name: (METHODS[name], setup)}) as workers:
        found: Checked = workers[name].call("check", pairs)
    return found


def _differences(found: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> dict[str, float]:
    squares = {
        name: (float(np.square(found[name] - expected).sum()), float(np.square(expected).sum()))
        for name, expected in reference.items()
        if name in found
    }

    def relative(names: Sequence[str]) -> float:
        difference, whole = (sum(squares[name][i] for name in names) for i in (0, 1))
        return float(np.sqrt(difference / whole))

    parts = {"words": "word_embeddings.weight", "layer": "layer.0.attention.self.query.weight", "dense": "projection."}
    differences = {"all": relative(list(squares))}
    for key, part in parts.items():
        differences[key] = max(relative([name]) for name in squares if part in name)
    return differences


# -- the measurement ---------------------------------------------------------------------------------------------------


class MatrixPeak:
    """FLOPs per second on square matrices, in the precision of the steps, by torch.mm or oneDNN, whichever
    is faster at the start.

    Attributes:
        best: of a single product, ever.
        kept_up: by round, what is kept up for ``WINDOW`` seconds before each method's turn. On a quiet machine it is
            about ``best``; one that others share stands still now and then, in products as in steps.
    """

    def __init__(self, setup: Setup) -> None:
        size = MATRIX["cuda" if setup.on_gpu else "cpu"]
        dtype = torch.bfloat16 if setup.bf16 else torch.float32
        first, second = (torch.randn(size, size, device=setup.device, dtype=dtype) for _ in range(2))
        layer = CpuLinear(size, size, bias=False, device=setup.device, dtype=dtype).requires_grad_(False)
        products: list[Callable[[], Tensor]] = [lambda: torch.mm(first, second), lambda: layer(first)]
        fastest = {product: min(_seconds(product) for _ in range(6)) for product in products}
        self.product = min(products, key=lambda product: fastest[product])
        self.flops = 2 * size**3
        self.best = self.flops / fastest[self.product]
        self.windows: list[tuple[int, float]] = []  # round, FLOPs per second

    def measure(self, number: int) -> None:
        """Keep the products up for a while, in round ``number``."""
        seconds: list[float] = []
        while sum(seconds) < WINDOW:
            seconds.append(_seconds(self.product))
        self.best = max(self.best, self.flops / min(seconds))
        self.windows.append((number, self.flops * len(seconds) / sum(seconds)))

    @property
    def kept_up(self) -> list[float]:
        rounds = sorted({number for number, _ in self.windows})
        return [fmean([rate for number, rate in self.windows if number == i]) for i in rounds]


def _seconds(product: Callable[[], Tensor]) -> float:
    began = time.perf_counter()
    product()[0, 0].item()  # waits for a GPU
    return time.perf_counter() - began


def useful_flops(config: CarpConfig, pairs: Pairs) -> float:
    """What one forward and one backward pass (3 x forward) over the real tokens take.

    6 x parameters of the encoder without its embeddings x tokens, 6 x parameters of the projection x texts, and
    12 x layers x width x the sum of squared lengths for attention.
    """
    total = 0.0
    for side, texts in zip(SIDES, pairs, strict=True):
        encoder_config = getattr(config, f"{side}_config")
        with torch.device("meta"):
            tower = TextTower(encoder_config, config.projection_dim, config.pooling)
        embeddings = sum(p.numel() for p in tower.encoder.embeddings.parameters())
        layers = sum(p.numel() for p in tower.encoder.parameters()) - embeddings
        projection = 0 if tower.projection is None else tower.projection.weight.numel()
        squares = int(texts.lengths.square().sum())
        total += 6 * layers * int(texts.lengths.sum()) + 6 * projection * len(texts)
        total += 12 * encoder_config.num_hidden_layers * encoder_config.hidden_size * squares
    return total


def measure(setup: Setup, pairs: Pairs, names: Sequence[str], rounds: int, budgets: Sequence[int]) -> str:
    """The table of one size.

    Seconds are the median over rounds. The ratio is the median over rounds of the method's seconds / those of carp in
    the same round: above 1 is slower than carp. Useful work is compared with the best matrix product of the whole run
    and, round by round, with what products keep up (see :class:`MatrixPeak`). Peak memory is that of the timed steps
    alone, weights and optimiser included; of the GPU where there is one. A method that fails is left out and named on
    stderr.
    """
    peak = MatrixPeak(setup)
    flops = useful_flops(setup.config, pairs)
    tokens = [int(side.lengths.sum()) for side in pairs]
    chunks: dict[str, str] = {}
    measured: dict[str, Measured] = {}
    with running({name: (METHODS[name], setup) for name in names}) as workers:
        for name, worker in workers.items():
            try:
                if refusal := worker.call("refusal", pairs):
                    print(f"{name}: not run: {refusal}\n", flush=True)
                    continue
                chunks[name] = _tune(name, worker, setup, pairs, budgets)
                worker.call("take", pairs)
                worker.reset_peak()
                measured[name] = worker.call("warm_up", sum(tokens))
            except WorkerError as error:
                print(error, file=sys.stderr, flush=True)
        alive = {name: workers[name] for name in measured}
        seconds = in_turn(alive, "settled_step", rounds, between=peak.measure)
        done = list(seconds)
        rounds = len(seconds[done[0]]) if done else 0  # Ctrl-C may have ended them
        peaks = {name: _peak_megabytes(workers[name], setup) for name in done}
    rows = []
    for name in done:
        middle = median(seconds[name] or [math.nan])
        compared = f"{ratio(seconds[name], seconds['carp']):.2f}" if "carp" in done and rounds else "-"
        row = [f"{middle:.3g}", f"{len(pairs.passages) / middle:.1f}", compared, f"{peaks[name]:.0f}"]
        row += [f"{measured[name].efficiency:.2f}", f"{measured[name].passes:.2f}", f"{flops / middle / peak.best:.0%}"]
        shares = [flops / s / rate for s, rate in zip(seconds[name], peak.kept_up[:rounds], strict=True)]
        row.append(f"{median(shares or [math.nan]):.0%}")
        rows.append([name, chunks[name], *row])
    header = ["method", "chunk", "seconds", "pairs/s", "time / carp's", "peak MB", "token efficiency"]
    header += ["forward passes", "share of the best product", "of products kept up"]
    about = (
        f"{len(pairs.passages)} pairs, {tokens[0]} + {tokens[1]} tokens, {rounds} rounds; useful work "
        f"{flops / 1e12:.2f} TFLOP; best matrix product {peak.best / 1e9:.0f} GFLOP/s, "
        f"kept up {median(peak.kept_up or [math.nan]) / 1e9:.0f}"
    )
    if "carp" in done and rounds:
        about += f"; {PAPERS_STEPS} steps of carp would take {PAPERS_STEPS * median(seconds['carp']) / 3600:.1f} hours"
    return f"{about}:\n\n{markdown_table(header, rows)}\n"


def _peak_megabytes(worker: Worker, setup: Setup) -> float:
    return float(worker.call("gpu_peak_megabytes")) if setup.on_gpu else worker.peak_megabytes()


def _tune(name: str, worker: Worker, setup: Setup, pairs: Pairs, budgets: Sequence[int]) -> str:
    """Chooses the budget of a method that counts tokens; what a chunk is, for the table."""
    if METHODS[name].tuned:
        count = TUNING_PAIRS["cuda" if setup.on_gpu else "cpu"]
        return f"{worker.call('tune', pairs.first(count), budgets)} tokens"
    return "all" if name == "whole" else f"{Setup.chunk_pairs} texts"


def main() -> None:
    quieten_libraries()
    options = _options()
    config = find_config(options.preset)
    setup = Setup(config, device=options.device, bf16=options.bf16)
    print(f"{options.preset}; {machine_line('sentence-transformers')}\n", flush=True)
    most = max(*options.pairs, CHECKED_PAIRS)
    longest = min(options.longest, config.max_passage_tokens)
    data = real_pairs(config, options.data, most, longest) if options.data else None

    def pairs(count: int) -> Pairs:
        return data.first(count) if data else random_pairs(config, count, longest)

    check_gradients(setup, pairs(CHECKED_PAIRS), options.methods)
    for count in options.pairs:
        names = [name for name in options.methods if name != "whole" or count <= options.whole_up_to]
        print(measure(setup, pairs(count), names, options.rounds, options.budgets), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[32, 256, 1024], help="sizes of the batch")
    parser.add_argument("--rounds", type=int, default=5, help="timed steps of each, after a warm-up; 0: memory alone")
    parser.add_argument("--data", help="file of pairs, as carp train reads them; by default random tokens are used")
    parser.add_argument("--preset", default="carp_tiny", help="architecture; the weights are random")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="by default all")
    parser.add_argument(
        "--budgets",
        type=int,
        nargs="+",
        default=[1024, 2048, 4096, 8192],
        help="tokens per chunk of carp, carp0 and st-best: each takes its fastest, found on some of the pairs",
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16, as train.precision=bf16 does")
    parser.add_argument("--longest", type=int, default=512, help="tokens of the longest passage (critique: 256)")
    parser.add_argument("--whole-up-to", type=int, default=256, help="most pairs for the method `whole`")
    return parser.parse_args()


if __name__ == "__main__":
    main()
