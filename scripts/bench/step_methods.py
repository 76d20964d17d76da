"""The ways to make a training step that `step.py` compares; each lives in a worker."""

from __future__ import annotations

import gc
import importlib.util
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from step_pairs import SIDES, Pairs
from torch import Tensor, nn

from carp.cli.main import quieten_libraries
from carp.loss import clip_loss, similarity_logits
from carp.model.carp_model import CarpModel
from carp.model.configuration import CarpConfig
from carp.model.cpu_layers import CPU_LAYERS
from carp.model.encoders import quiet_transformers, train_tokenizer
from carp.model.graphs import memory_for_graphs
from carp.model.heap import release_heap
from carp.model.texts import TokenizedTexts
from carp.model.tower import TextTower
from carp.training.contrastive import contrastive_backward

LEARNING_RATE = 1e-5


@dataclass(frozen=True)
class Setup:
    """What every method starts from.

    Attributes:
        config: of the model; the weights are drawn from seed 0.
        chunk_pairs: texts per chunk where chunks are counted in texts.
        chunk_tokens: tokens per chunk where they are counted in tokens.
        device: where the model lives.
        bf16: whether to compute in bfloat16 (autocast, as ``train.precision=bf16`` does).
    """

    config: CarpConfig
    chunk_pairs: int = 32
    chunk_tokens: int = 8192
    device: str = "cpu"
    bf16: bool = False

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"


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


class Method(ABC):
    """A way to make a training step.

    Attributes:
        tuned: whether the method counts its chunks in tokens, so that the best budget is chosen for it.
        settling: pairs of the batch whose step touches all memory that the whole step needs; ``None``: all of them.
    """

    tuned = False
    settling: int | None = 32

    def __init__(self, setup: Setup) -> None:
        quieten_libraries()
        self.setup = setup
        torch.manual_seed(0)
        self.build(CarpModel(setup.config).to(setup.device))
        self.optimizer = torch.optim.AdamW(self.parameters().values(), lr=LEARNING_RATE, fused=True)
        self.batch: Any = None
        self.few: Any = None
        gc.freeze()  # or Python's collector would walk over the libraries' objects now and then, in the steps too

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
        with self._autocast():
            loss = float(self.backward(self.prepare(pairs)))
        found = {name: p.grad.cpu().numpy().copy() for name, p in self.parameters().items() if p.grad is not None}
        self.optimizer.zero_grad()
        return Checked(loss, found)

    def tune(self, pairs: Pairs, budgets: Sequence[int]) -> int:
        """The token budget of a chunk with the fastest step (the better of two steps each); it is kept."""
        seconds = {}
        for budget in budgets if len(budgets) > 1 else []:
            self.setup = replace(self.setup, chunk_tokens=budget)
            self.take(pairs)
            self.step(self.batch)
            seconds[budget] = min(self.step(self.batch) for _ in range(2))
        best = min(budgets, key=lambda budget: seconds.get(budget, 0.0))
        self.setup = replace(self.setup, chunk_tokens=best)
        return best

    def take(self, pairs: Pairs) -> None:
        """Make this the batch of the following steps."""
        self._train(True)
        self.batch = self.prepare(pairs)
        self.few = self.batch if self.settling is None else self.prepare(pairs.first(self.settling))

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
        self.step(self.batch)
        for hook in hooks:
            hook.remove()
        release_heap()
        return Measured(real / processed, real / real_tokens)

    def step(self, batch: Any) -> float:
        """Seconds of loss, gradients, update and ``zero_grad``."""
        self._wait()
        began = time.perf_counter()
        with self._autocast():
            self.backward(batch)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self._wait()
        return time.perf_counter() - began

    def settled_step(self) -> float:
        """The seconds of a step that follows another one.

        While others had their turn, a virtual machine may have given this worker's memory back to its host; training
        makes one step after the other. What is free afterwards is the next worker's: together they would take more
        than the machine has.
        """
        self.step(self.few)
        seconds = self.step(self.batch)
        release_heap()
        return seconds

    def gpu_peak_megabytes(self) -> float:
        """The most memory that tensors have taken on the GPU, in MB (2**20 bytes)."""
        return torch.cuda.max_memory_allocated() / 2**20

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.setup.device.split(":")[0], torch.bfloat16, enabled=self.setup.bf16)

    def _wait(self) -> None:
        if self.setup.on_gpu:
            torch.cuda.synchronize()

    def _train(self, mode: bool) -> None:
        for module in self.modules():
            module.train(mode)


class Carp(Method):
    """carp's own step, with the memory for graphs that ``carp train`` gives it by itself."""

    tuned = True
    settling = None

    def build(self, model: CarpModel) -> None:
        self.model = model
        self.graph_bytes = self.memory()

    def memory(self) -> float:
        return memory_for_graphs(torch.device(self.setup.device))

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

    settling = 32

    def memory(self) -> float:
        return 0.0


class Padded(Carp):
    """What the two plain methods share: the towers as transformers runs them, padded, with torch's own layers."""

    tuned = False
    settling = 32

    def build(self, model: CarpModel) -> None:
        self.model = model
        for encoder in self.encoders():
            encoder.set_attn_implementation("sdpa")
            for module in encoder.modules():
                for plain, ours in CPU_LAYERS.items():
                    if type(module) is ours:
                        module.__class__ = plain

    def loss(self, passages: Tensor, critiques: Tensor) -> Tensor:
        return clip_loss(similarity_logits(passages, critiques, self.model.logit_scale.exp()))

    def padded(self, tower: TextTower, texts: TokenizedTexts, rows: Tensor) -> tuple[Tensor, Tensor]:
        ids, mask = texts.padded(rows, tower.pad_token_id)
        return ids.to(self.setup.device), mask.to(self.setup.device)


class WholeBatch(Padded):
    """One padded batch and ordinary autograd."""

    settling = None

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
                    states[-1].append(self._random_state())
                    embeds[-1].append(tower(ids, mask))
        leaves = [torch.cat(side).requires_grad_() for side in embeds]
        loss = self.loss(*leaves)
        loss.backward()
        for tower, chunks, side_states, leaf in zip(self.towers(), batch, states, leaves, strict=True):
            cached = leaf.grad.split([len(ids) for ids, _ in chunks])
            for (ids, mask), state, gradient in zip(chunks, side_states, cached, strict=True):
                with torch.random.fork_rng():
                    self._restore(state)
                    again = tower(ids, mask)
                torch.dot(again.flatten(), gradient.flatten()).backward()
        return loss.detach()

    def _random_state(self) -> Tensor:
        return torch.cuda.get_rng_state() if self.setup.on_gpu else torch.get_rng_state()

    def _restore(self, state: Tensor) -> None:
        torch.cuda.set_rng_state(state) if self.setup.on_gpu else torch.set_rng_state(state)


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
            self.routes = [_route(tower, self.attention()) for tower in towers]
        router = Router.for_query_document(*self.routes)
        self.model = SentenceTransformer(modules=[router], device=self.setup.device)
        self.loss = self.make_loss(len(self.routes))

    def attention(self) -> str:
        """transformers' name of the attention; flash attention, where it can be had, is what they advise on a GPU."""
        flash = self.setup.on_gpu and self.setup.bf16 and importlib.util.find_spec("flash_attn")
        return "flash_attention_2" if flash else "sdpa"

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
            ids, mask = ids.to(self.setup.device), mask.to(self.setup.device)
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


def _route(tower: TextTower, attention: str) -> list[Any]:
    """The modules of sentence-transformers that compute what a tower does, with its weights."""
    from sentence_transformers.sentence_transformer.modules import Dense, Pooling, Transformer

    width = tower.encoder.config.hidden_size
    with tempfile.TemporaryDirectory() as folder:
        tower.encoder.save_pretrained(folder)
        train_tokenizer([], 300, 512).save_pretrained(folder)  # it wants one, and never uses it here
        transformer = Transformer(folder, model_kwargs={"add_pooling_layer": False, "attn_implementation": attention})
    weight = tower.projection.weight.detach().cpu().clone()
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
