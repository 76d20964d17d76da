"""A training step of carp against its peers: the same model, weights, pairs and loss, each method in its own process.

    python scripts/bench/step.py --pairs 32 256 1024 --rounds 5
    python scripts/bench/step.py --pairs 256 1024 --rounds 5 --data pairs.jsonl.gz

Methods:

carp        carp.contrastive_backward, which keeps the graphs that memory holds (40% of what is free at the start)
carp0       the same with graph_bytes=0: every text is embedded twice
whole       one padded batch, ordinary autograd; only up to --whole-up-to pairs and where memory holds its graph
gradcache   the two-pass method of GradCache, written plainly: padded chunks of 32 in the order of the batch
st          sentence-transformers' CachedMultipleNegativesRankingLoss, symmetric, two encoders by Router, its defaults
st-best     the same with pairs sorted by the passage's length, mini_batch_num_tokens, the loss in one piece

First every method computes the gradient of the same 24 pairs without dropout, in small chunks, so that all of them
are cut; it must agree with that of `whole`, or nothing is timed. Then, for each size, every method warms up and is
timed in turn with the others, on the same batch, with dropout. A step is loss, gradients, one update by fused AdamW
and zero_grad. Not in it, for any method: tokenising, sorting the pairs (st-best) and padding them into tensors.
Planning the chunks and finding false negatives, which only carp does, are in it.

Every worker holds 4 copies of the model and its activations at once with the others: --methods lets fewer run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from torch import Tensor, nn
from workers import Worker, WorkerError, in_turn, machine_line, markdown_table, ratio, running

from carp.cli.main import quieten_libraries
from carp.data.pairs import read_pairs
from carp.loss import clip_loss, similarity_logits
from carp.model.carp_model import CarpModel
from carp.model.configuration import CarpConfig, context_capacity
from carp.model.encoders import MINILM, load_tokenizer, quiet_transformers, resolve_encoder, train_tokenizer
from carp.model.graphs import memory_for_graphs
from carp.model.texts import TokenizedTexts
from carp.model.tower import TextTower
from carp.training.contrastive import contrastive_backward
from carp.training.information import find_config

SIDES = ("passage", "critique")
CHECKED_PAIRS = 24
CHECKED_CHUNK_PAIRS, CHECKED_CHUNK_TOKENS = 8, 1024  # small, so that the check sees several chunks
TOLERANCE = 1e-4  # relative, in the Euclidean norm; float32 has 6e-8, the sums here are over some 10,000 terms
TUNING_PAIRS = 128
LEARNING_RATE = 1e-5
MATRIX = 2048


class Pairs(NamedTuple):
    """Passages and critiques, ``n`` each."""

    passages: TokenizedTexts
    critiques: TokenizedTexts

    def rows(self, rows: Tensor) -> Pairs:
        """The pairs ``rows`` [k], in that order."""
        return Pairs(*(TokenizedTexts(*side.flat(rows)) for side in self))

    def first(self, n: int) -> Pairs:
        return self.rows(torch.arange(min(n, len(self.passages))))


@dataclass(frozen=True)
class Setup:
    """What every method starts from.

    Attributes:
        config: of the model; the weights are drawn from seed 0.
        chunk_pairs: texts per chunk where chunks are counted in texts.
        chunk_tokens: tokens per chunk where they are counted in tokens.
    """

    config: CarpConfig
    chunk_pairs: int = 32
    chunk_tokens: int = 8192


class Checked(NamedTuple):
    """Loss and gradients of a batch; ``gradients`` has the names of :class:`CarpModel`'s parameters."""

    loss: float
    gradients: dict[str, np.ndarray]


class Measured(NamedTuple):
    """What a warm-up step tells.

    Attributes:
        efficiency: real tokens / tokens processed, over all forward passes: 1 without padding.
        passes: real tokens processed / real tokens of the batch: 2 where every text is embedded twice.
    """

    efficiency: float
    passes: float


# -- the methods, each of which lives in a worker ----------------------------------------------------------------------


class Method(ABC):
    """A way to make a training step.

    Attributes:
        tuned: whether the method counts its chunks in tokens, so that the best budget is chosen for it.
    """

    tuned = False

    def __init__(self, setup: Setup) -> None:
        quieten_libraries()
        self.setup = setup
        torch.manual_seed(0)
        self.build(CarpModel(setup.config))
        self.optimizer = torch.optim.AdamW(self.parameters().values(), lr=LEARNING_RATE, fused=True)
        self.batch: Any = None

    @abstractmethod
    def build(self, model: CarpModel) -> None:
        """Take over the weights of a model."""

    @abstractmethod
    def modules(self) -> list[nn.Module]:
        """Everything that is trained."""

    @abstractmethod
    def encoders(self) -> list[nn.Module]:
        """The two encoders, as modules that take ``input_ids`` and ``attention_mask``."""

    @abstractmethod
    def parameters(self) -> dict[str, nn.Parameter]:
        """Trained parameters under the names that :class:`CarpModel` gives them."""

    @abstractmethod
    def prepare(self, pairs: Pairs) -> Any:
        """What :meth:`backward` takes; not timed."""

    @abstractmethod
    def backward(self, batch: Any) -> Tensor:
        """Leave the gradient of the loss in ``.grad``; returns the loss."""

    def refusal(self, pairs: Pairs) -> str | None:
        """Why this batch cannot be run on this machine, or ``None``."""
        return None

    def check(self, pairs: Pairs) -> Checked:
        """Loss and gradients without dropout; nothing is updated."""
        self._train(False)
        loss = float(self.backward(self.prepare(pairs)))
        found = {name: p.grad.numpy().copy() for name, p in self.parameters().items() if p.grad is not None}
        self.optimizer.zero_grad()
        return Checked(loss, found)

    def tune(self, pairs: Pairs, budgets: Sequence[int]) -> int:
        """The token budget of a chunk with the fastest step (the better of two steps each); it is kept."""
        seconds = {}
        for budget in budgets if len(budgets) > 1 else []:
            self.setup = replace(self.setup, chunk_tokens=budget)
            self.take(pairs)
            self.step()
            seconds[budget] = min(self.step() for _ in range(2))
        best = min(budgets, key=lambda budget: seconds.get(budget, 0.0))
        self.setup = replace(self.setup, chunk_tokens=best)
        return best

    def take(self, pairs: Pairs) -> None:
        """Make this the batch of the following steps."""
        self._train(True)
        self.batch = self.prepare(pairs)

    def warm_up(self, real_tokens: int) -> Measured:
        """One step, whose tokens are counted; ``real_tokens`` are those of the batch."""
        real, processed = 0, 0

        def count(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            nonlocal real, processed
            features = kwargs or args[0]  # sentence-transformers hands on a dictionary
            ids, mask = features["input_ids"], features.get("attention_mask")
            processed += ids.numel()
            real += ids.numel() if mask is None else int(mask.sum())

        hooks = [e.register_forward_pre_hook(count, with_kwargs=True) for e in self.encoders()]
        self.step()
        for hook in hooks:
            hook.remove()
        return Measured(real / processed, real / real_tokens)

    def step(self) -> float:
        """Seconds of loss, gradients, update and ``zero_grad``."""
        began = time.perf_counter()
        self.backward(self.batch)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return time.perf_counter() - began

    def _train(self, mode: bool) -> None:
        for module in self.modules():
            module.train(mode)


class Carp(Method):
    """carp's own step, with the memory for graphs that ``carp train`` gives it by itself."""

    tuned = True

    def build(self, model: CarpModel) -> None:
        self.model = model
        self.graph_bytes = self.memory()

    def memory(self) -> float:
        return memory_for_graphs(torch.device("cpu"))

    def modules(self) -> list[nn.Module]:
        return [self.model]

    def towers(self) -> list[TextTower]:
        return [self.model.passage_tower, self.model.critique_tower]

    def encoders(self) -> list[nn.Module]:
        return [tower.encoder for tower in self.towers()]

    def parameters(self) -> dict[str, nn.Parameter]:
        return dict(self.model.named_parameters())

    def prepare(self, pairs: Pairs) -> Any:
        return pairs

    def backward(self, batch: Any) -> Tensor:
        return contrastive_backward(
            self.model, *batch, tokens_per_chunk=self.setup.chunk_tokens, graph_bytes=self.graph_bytes
        ).loss


class CarpTwice(Carp):
    """carp's step without memory for graphs: two passes over everything."""

    def memory(self) -> float:
        return 0.0


class Padded(Carp):
    """What the two plain methods share: the towers as transformers runs them, padded, with its own attention."""

    tuned = False

    def build(self, model: CarpModel) -> None:
        self.model = model
        for encoder in self.encoders():
            encoder.set_attn_implementation("sdpa")

    def loss(self, passages: Tensor, critiques: Tensor) -> Tensor:
        return clip_loss(similarity_logits(passages, critiques, self.model.logit_scale.exp()))

    def padded(self, tower: TextTower, texts: TokenizedTexts, rows: Tensor) -> tuple[Tensor, Tensor]:
        return texts.padded(rows, tower.pad_token_id)


class WholeBatch(Padded):
    """One padded batch and ordinary autograd."""

    def prepare(self, pairs: Pairs) -> Any:
        everything = torch.arange(len(pairs.passages))
        return [self.padded(t, texts, everything) for t, texts in zip(self.towers(), pairs, strict=True)]

    def backward(self, batch: Any) -> Tensor:
        loss = self.loss(*(tower(*side) for tower, side in zip(self.towers(), batch, strict=True)))
        loss.backward()
        return loss.detach()

    def refusal(self, pairs: Pairs) -> str | None:
        """Half of the free memory must hold what autograd saves: n times what it saves for the longest text."""
        self._train(True)
        needed = 0
        for tower, texts in zip(self.towers(), pairs, strict=True):
            longest = texts.lengths.argmax()[None]
            saved: dict[int, int] = {}

            def pack(tensor: Tensor, saved: dict[int, int] = saved) -> Tensor:
                storage = tensor.untyped_storage()
                saved[storage.data_ptr()] = storage.nbytes()
                return tensor

            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                graph = tower(*self.padded(tower, texts, longest))
            for parameter in tower.parameters():
                saved.pop(parameter.untyped_storage().data_ptr(), None)
            needed += sum(saved.values()) * len(texts)
            del graph
        available = psutil.virtual_memory().available
        if needed <= available / 2:
            return None
        return f"its graph would take {needed / 2**30:.0f} GiB; {available / 2**30:.0f} GiB are free"


class GradCache(Padded):
    """Two passes over padded chunks of equally many texts, in the order of the batch (arXiv:2101.06983)."""

    def prepare(self, pairs: Pairs) -> Any:
        chunks = torch.arange(len(pairs.passages)).split(self.setup.chunk_pairs)
        return [
            [self.padded(tower, texts, rows) for rows in chunks]
            for tower, texts in zip(self.towers(), pairs, strict=True)
        ]

    def backward(self, batch: Any) -> Tensor:
        embeds: list[list[Tensor]] = []
        states: list[list[Tensor]] = []
        with torch.no_grad():
            for tower, chunks in zip(self.towers(), batch, strict=True):
                embeds.append([])
                states.append([])
                for ids, mask in chunks:
                    states[-1].append(torch.get_rng_state())
                    embeds[-1].append(tower(ids, mask))
        leaves = [torch.cat(side).requires_grad_() for side in embeds]
        loss = self.loss(*leaves)
        loss.backward()
        for tower, chunks, side_states, leaf in zip(self.towers(), batch, states, leaves, strict=True):
            cached = leaf.grad.split([len(ids) for ids, _ in chunks])
            for (ids, mask), state, gradient in zip(chunks, side_states, cached, strict=True):
                with torch.random.fork_rng(devices=[]):
                    torch.set_rng_state(state)
                    again = tower(ids, mask)
                torch.dot(again.flatten(), gradient.flatten()).backward()
        return loss.detach()


class SentenceTransformers(Method):
    """sentence-transformers' cached loss at its defaults: mini-batches of 32 pairs, in the order of the batch.

    Each route is Transformer, mean pooling and a Dense layer; its cosine similarity normalises. carp normalises
    before the projection too and sums instead of averaging: neither changes a cosine, nor its gradient. The scale is
    a constant there, so the temperature is not trained.
    """

    def build(self, model: CarpModel) -> None:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Router

        towers = (model.passage_tower, model.critique_tower)
        self.pad_token_ids = [tower.pad_token_id for tower in towers]
        self.scale = model.logit_scale.exp().item()
        with quiet_transformers():
            self.routes = [_route(tower) for tower in towers]
        router = Router.for_query_document(*self.routes)
        self.model = SentenceTransformer(modules=[router], device="cpu")
        self.loss = self.make_loss(len(self.routes))

    def make_loss(self, pairs: int) -> Any:
        return self._loss(mini_batch_size=self.setup.chunk_pairs)

    def _loss(self, **options: Any) -> Any:
        from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss

        return CachedMultipleNegativesRankingLoss(
            self.model,
            scale=self.scale,
            directions=("query_to_doc", "doc_to_query"),
            partition_mode="per_direction",
            **options,
        )

    def modules(self) -> list[nn.Module]:
        return [self.model]

    def encoders(self) -> list[nn.Module]:
        return [route[0] for route in self.routes]

    def parameters(self) -> dict[str, nn.Parameter]:
        found = {}
        for side, (transformer, _, dense) in zip(SIDES, self.routes, strict=True):
            for name, parameter in transformer.model.named_parameters():
                found[f"{side}_tower.encoder.{name}"] = parameter
            found[f"{side}_tower.projection.weight"] = dense.linear.weight
        return found

    def prepare(self, pairs: Pairs) -> Any:
        self.loss = self.make_loss(len(pairs.passages))
        everything = torch.arange(len(pairs.passages))
        features = []
        for texts, task, pad in zip(pairs, ("query", "document"), self.pad_token_ids, strict=True):
            ids, mask = texts.padded(everything, pad)
            features.append({"input_ids": ids, "attention_mask": mask, "task": task})
        return features

    def backward(self, batch: Any) -> Tensor:
        loss = self.loss(batch, None)
        loss.backward()
        return loss.detach()


class SentenceTransformersBest(SentenceTransformers):
    """The same with everything that it offers for speed on a CPU.

    Pairs are sorted by the passage's length, then the critique's (the two sides of its input must keep one order);
    mini-batches are packed by tokens, as many as :meth:`tune` finds best; the score matrix is one piece. Its unpadded
    input needs flash attention, so a GPU.
    """

    tuned = True

    def make_loss(self, pairs: int) -> Any:
        return self._loss(mini_batch_size=pairs, mini_batch_num_tokens=self.setup.chunk_tokens)

    def prepare(self, pairs: Pairs) -> Any:
        order = np.lexsort((-pairs.critiques.lengths.numpy(), -pairs.passages.lengths.numpy()))
        return super().prepare(pairs.rows(torch.from_numpy(order)))


def _route(tower: TextTower) -> list[Any]:
    """The modules of sentence-transformers that compute what a tower does, with its weights."""
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

    width = tower.encoder.config.hidden_size
    with tempfile.TemporaryDirectory() as folder:
        tower.encoder.save_pretrained(folder)
        train_tokenizer([], 300, 512).save_pretrained(folder)  # it wants one, and never uses it here
        transformer = Transformer(folder, model_kwargs={"add_pooling_layer": False, "attn_implementation": "sdpa"})
    weight = tower.projection.weight.detach().clone()
    dense = Dense(width, len(weight), bias=False, activation_function=nn.Identity(), init_weight=weight)
    return [transformer, Pooling(width, pooling_mode="mean"), dense]


METHODS: dict[str, type[Method]] = {
    "carp": Carp,
    "carp0": CarpTwice,
    "whole": WholeBatch,
    "gradcache": GradCache,
    "st": SentenceTransformers,
    "st-best": SentenceTransformersBest,
}


# -- the pairs ---------------------------------------------------------------------------------------------------------


def random_pairs(config: CarpConfig, count: int, longest: int) -> Pairs:
    """Random token ids; log-normal lengths (sigma 0.7) with medians 110 and 25, as stories and comments have them."""
    generator = torch.Generator().manual_seed(count)
    sides = []
    for side, middle, limit in (("passage", 110, longest), ("critique", 25, min(longest, 256))):
        vocab_size = getattr(config, f"{side}_config").vocab_size
        deviations = torch.randn(count, generator=generator) * 0.7
        lengths = (deviations + np.log(middle)).exp().round().long().clamp(4, limit)
        sides.append(TokenizedTexts(torch.randint(5, vocab_size, (int(lengths.sum()),), generator=generator), lengths))
    return Pairs(*sides)


def real_pairs(config: CarpConfig, source: str, count: int, longest: int) -> Pairs:
    """The first ``count`` pairs of a file in a shuffled order in which no passage and no critique comes twice.

    carp would mask those as false negatives; its peers would not, and the gradients would differ. Sets the padding
    token of ``config`` to that of the tokenizer.
    """
    pairs = list(read_pairs(source))
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0)).tolist()
    tokenizer = _tokenizer(config, [text for i in order[:5000] for text in pairs[i][:2]])
    for side in SIDES:
        getattr(config, f"{side}_config").pad_token_id = tokenizer.pad_token_id
    limits = (min(longest, config.max_passage_tokens), min(longest, 256, config.max_critique_tokens))
    seen: set[tuple[int, ...]] = set()
    sides: tuple[list[Any], list[Any]] = ([], [])
    for i in order:
        if len(sides[0]) == count:
            break
        tokens = [
            tuple(tokenizer(text, truncation=True, max_length=limit)["input_ids"])
            for text, limit in zip(pairs[i][:2], limits, strict=True)
        ]
        if seen.isdisjoint(tokens):
            seen.update(tokens)
            for side, row in zip(sides, tokens, strict=True):
                side.append(row)
    if len(sides[0]) < count:
        raise SystemExit(f"{source}: {len(sides[0])} pairs of different texts, fewer than {count}")
    return Pairs(*(TokenizedTexts.from_lists(side) for side in sides))


def _tokenizer(config: CarpConfig, texts: list[str]) -> Any:
    """MiniLM's where it is installed and the model's vocabulary holds it; else one that is trained on the texts."""
    vocab_size = config.passage_config.vocab_size
    if resolve_encoder(MINILM) != MINILM:
        tokenizer = load_tokenizer(MINILM)
        if len(tokenizer) <= vocab_size:
            return tokenizer
    return train_tokenizer(texts, vocab_size, context_capacity(config.passage_config))


# -- the check ---------------------------------------------------------------------------------------------------------


def check_gradients(config: CarpConfig, pairs: Pairs, names: Sequence[str]) -> None:
    """Compare every method's loss and gradient with those of the whole batch; prints a table.

    The difference of a gradient is the Euclidean norm of (method - whole) / that of whole: over all parameters that
    both train, and for each of three tensors the worse of the two towers'. Methods are run one after the other.

    Raises:
        SystemExit: if one differs by more than ``TOLERANCE``, or does not train a parameter other than the temperature.
    """
    setup = Setup(config, CHECKED_CHUNK_PAIRS, CHECKED_CHUNK_TOKENS)
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
    """FLOPs per second of torch.mm on 2048 x 2048 float32: the best of three before every round."""

    def __init__(self) -> None:
        self.best = 0.0
        self.matrices = [torch.randn(MATRIX, MATRIX) for _ in range(2)]
        torch.mm(*self.matrices)

    def measure(self) -> None:
        for _ in range(3):
            began = time.perf_counter()
            torch.mm(*self.matrices)
            self.best = max(self.best, 2 * MATRIX**3 / (time.perf_counter() - began))


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


def measure(config: CarpConfig, pairs: Pairs, names: Sequence[str], rounds: int, budgets: Sequence[int]) -> str:
    """The table of one size.

    Seconds are the median over rounds. The ratio is the median over rounds of the method's seconds / those of carp in
    the same round: above 1 is slower than carp. Peak memory is that of the timed steps alone, weights and optimiser
    included. A method that fails is left out and named on stderr.
    """
    peak = MatrixPeak()
    flops = useful_flops(config, pairs)
    tokens = [int(side.lengths.sum()) for side in pairs]
    chunks: dict[str, str] = {}
    measured: dict[str, Measured] = {}
    with running({name: (METHODS[name], Setup(config)) for name in names}) as workers:
        for name, worker in workers.items():
            try:
                if refusal := worker.call("refusal", pairs):
                    print(f"{name}: not run: {refusal}\n", flush=True)
                    continue
                chunks[name] = _tune(name, worker, pairs, budgets)
                worker.call("take", pairs)
                worker.reset_peak()
                measured[name] = worker.call("warm_up", sum(tokens))
            except WorkerError as error:
                print(error, file=sys.stderr, flush=True)
        alive = {name: workers[name] for name in measured}
        seconds = in_turn(alive, "step", rounds, between=peak.measure)
        done = [name for name in measured if len(seconds[name]) == rounds]
        peaks = {name: workers[name].peak_megabytes() for name in done}
    rows = []
    for name in done:
        middle = median(seconds[name])
        compared = f"{ratio(seconds[name], seconds['carp']):.2f}" if "carp" in done else "-"
        row = [f"{middle:.3g}", f"{len(pairs.passages) / middle:.1f}", compared, f"{peaks[name]:.0f}"]
        row += [f"{measured[name].efficiency:.2f}", f"{measured[name].passes:.2f}", f"{flops / middle / peak.best:.0%}"]
        rows.append([name, chunks[name], *row])
    header = ["method", "chunk", "seconds", "pairs/s", "time / carp's", "peak MB", "token efficiency"]
    header += ["forward passes", "share of matrix peak"]
    about = (
        f"{len(pairs.passages)} pairs, {tokens[0]} + {tokens[1]} tokens, {rounds} rounds; useful work "
        f"{flops / 1e12:.2f} TFLOP; peak of torch.mm {peak.best / 1e9:.0f} GFLOP/s"
    )
    return f"{about}:\n\n{markdown_table(header, rows)}\n"


def _tune(name: str, worker: Worker, pairs: Pairs, budgets: Sequence[int]) -> str:
    """Chooses the budget of a method that counts tokens; what a chunk is, for the table."""
    if METHODS[name].tuned:
        return f"{worker.call('tune', pairs.first(TUNING_PAIRS), budgets)} tokens"
    return "all" if name == "whole" else f"{Setup.chunk_pairs} texts"


def main() -> None:
    quieten_libraries()
    options = _options()
    config = find_config(options.preset)
    print(f"{options.preset}; {machine_line('sentence-transformers')}\n", flush=True)
    most = max(*options.pairs, CHECKED_PAIRS)
    longest = min(options.longest, config.max_passage_tokens)
    data = real_pairs(config, options.data, most, longest) if options.data else None

    def pairs(count: int) -> Pairs:
        return data.first(count) if data else random_pairs(config, count, longest)

    check_gradients(config, pairs(CHECKED_PAIRS), options.methods)
    for count in options.pairs:
        names = [name for name in options.methods if name != "whole" or count <= options.whole_up_to]
        print(measure(config, pairs(count), names, options.rounds, options.budgets), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[32, 256, 1024], help="sizes of the batch")
    parser.add_argument("--rounds", type=int, default=5, help="timed steps of every method, after one warm-up")
    parser.add_argument("--data", help="file of pairs, as carp train reads them; by default random tokens are used")
    parser.add_argument("--preset", default="carp_tiny", help="architecture; the weights are random")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="by default all")
    parser.add_argument(
        "--budgets",
        type=int,
        nargs="+",
        default=[1024, 2048, 4096, 8192],
        help=f"tokens per chunk of carp, carp0 and st-best: each takes its fastest, found on {TUNING_PAIRS} pairs",
    )
    parser.add_argument("--longest", type=int, default=512, help="tokens of the longest passage (critique: 256)")
    parser.add_argument("--whole-up-to", type=int, default=256, help="most pairs for the method `whole`")
    return parser.parse_args()


if __name__ == "__main__":
    main()
