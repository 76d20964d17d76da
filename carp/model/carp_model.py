"""The CARP model: two towers, a temperature and two tokenizers in one folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
import transformers.initialization as init
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformers import AutoModel, AutoTokenizer, PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from carp.constants import REFERENCE
from carp.errors import InputError
from carp.model.card import basic_card
from carp.model.chunked import embed_in_chunks
from carp.model.compact import is_compact, load_compact_tokenizer, restored_state
from carp.model.configuration import INITIAL_LOGIT_SCALE, LOGIT_SCALE_BOUNDS, CarpConfig
from carp.model.encoders import load_encoder_config, load_tokenizer, quiet_transformers, resolve_encoder
from carp.model.graphs import GraphBudget
from carp.model.hub import check_checkpoint, checkpoint_folder, push_folder
from carp.model.texts import TokenizedTexts, plan_chunks
from carp.model.tower import TextTower, encoder_options

Side = Literal["passage", "critique"]
HUB_OPTIONS = ("revision", "cache_dir", "token", "local_files_only", "force_download")
TEXTS_PER_BLOCK = 8192  # texts tokenised and sorted together: bounds the memory of a long list
# A CPU is fastest on chunks whose hidden states stay in its caches, a GPU on large ones.
TOKENS_PER_CHUNK = {"cpu": 2048}
MANY_TOKENS = 16_384


class CarpModel(PreTrainedModel):
    """Two text encoders whose embeddings lie close where a critique fits a passage (CARP, section 3).

    ``save_pretrained``, ``from_pretrained`` and ``push_to_hub`` work as in transformers; the two tokenizers
    live in the same folder.

    Attributes:
        logit_scale: parameter [1]; the loss multiplies cosines by its exponential.
        passage_tokenizer, critique_tokenizer: needed by ``encode_passages`` and ``encode_critiques``.
        reference: [n, dim] embeddings of passages that scores can be compared with, or ``None``; see
            :mod:`carp.scoring.calibration`.
    """

    config_class = CarpConfig
    base_model_prefix = "carp"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_attention_backend = True

    def __init__(self, config: CarpConfig) -> None:
        super().__init__(config)
        self.passage_tower = TextTower(config.passage_config, config.projection_dim, config.pooling)
        self.critique_tower = TextTower(config.critique_config, config.projection_dim, config.pooling)
        # Of shape [1], not [], because DeepSpeed cannot broadcast a tensor without dimensions.
        self.logit_scale = nn.Parameter(torch.tensor([INITIAL_LOGIT_SCALE]))
        self.passage_tokenizer: PreTrainedTokenizerBase | None = None
        self.critique_tokenizer: PreTrainedTokenizerBase | None = None
        self.reference: Tensor | None = None
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if module is not self:
            return
        init.constant_(self.logit_scale, INITIAL_LOGIT_SCALE)
        passage, critique = self.passage_tower.projection, self.critique_tower.projection
        if passage is None or critique is None:
            return
        # One isometry for both sides: before training, cosines are those of the bare encoders, so that two
        # copies of a sentence encoder start with what they know.
        init.orthogonal_(passage.weight)
        if passage.weight.shape == critique.weight.shape:
            init.copy_(critique.weight, passage.weight)
        else:
            init.orthogonal_(critique.weight)

    # -- making one ------------------------------------------------------------------------------------

    @classmethod
    def from_encoders(cls, passage: str, critique: str | None = None, **config: Any) -> CarpModel:
        """Build a model from pretrained encoders.

        Args:
            passage: Hub id or folder of the passage encoder, e.g. ``"roberta-base"``.
            critique: the same for critiques; by default a second copy of the passage encoder.
            **config: further fields of :class:`CarpConfig`, e.g. ``projection_dim=512``.

        Raises:
            InputError: if an encoder cannot be loaded.
        """
        names: dict[str, str] = {"passage": passage, "critique": critique or passage}
        configs: dict[str, Any] = {f"{side}_config": load_encoder_config(name) for side, name in names.items()}
        model = cls(CarpConfig(**configs, **config))
        for side, name in names.items():
            model._load_encoder(side, name)
        return model

    def _load_encoder(self, side: str, name: str) -> None:
        tower = getattr(self, f"{side}_tower")
        with quiet_transformers():
            encoder = AutoModel.from_pretrained(
                resolve_encoder(name), use_safetensors=True, **encoder_options(tower.encoder.config)
            )
        encoder.config._name_or_path = name  # not the folder of this machine
        tokenizer = load_tokenizer(name)
        if len(tokenizer) > (known := encoder.config.vocab_size):
            words = encoder.resize_token_embeddings(len(tokenizer), mean_resizing=False).weight.data
            words[known:] = words[:known].mean(dim=0)  # not random: equal encoders stay equal
        tower.take_encoder(encoder)
        setattr(self, f"{side}_tokenizer", tokenizer)
        setattr(self.config, f"{side}_config", encoder.config)

    @classmethod
    def from_pretrained(  # type: ignore[override]
        cls, name: str | os.PathLike[str], *args: Any, **kwargs: Any
    ) -> Any:
        """Load a checkpoint folder or Hub repository, tokenizers included.

        Takes the options of transformers' ``from_pretrained``. Only safetensors are read.

        Raises:
            InputError: if there is no CARP checkpoint under this name.
        """
        wants_info = kwargs.pop("output_loading_info", False)
        folder = Path(checkpoint_folder(name, **{key: kwargs.pop(key) for key in HUB_OPTIONS if key in kwargs}))
        check_checkpoint(folder, name)
        try:
            with quiet_transformers():
                source: Any = folder
                if is_compact(folder):
                    source = None
                    kwargs |= {"config": CarpConfig.from_pretrained(folder), "state_dict": restored_state(folder)}
                loaded: Any = super().from_pretrained(
                    source, *args, use_safetensors=True, output_loading_info=True, **kwargs
                )
                model, info = loaded
                model.config._name_or_path = model.name_or_path = str(name)  # not the folder in the cache
                for side in ("passage", "critique"):
                    setattr(model, f"{side}_tokenizer", _saved_tokenizer(folder, side))
                if (reference := folder / REFERENCE).exists():
                    model.reference = load_file(reference)["passages"].float()
        except (OSError, ValueError, SafetensorError) as error:
            raise InputError(f"cannot load a CARP model from {str(name)!r}: {_first_line(error)}") from error
        if absent := sorted(info["missing_keys"]):
            raise InputError(f"{name}: no whole CARP model: {len(absent)} weights are missing, e.g. {absent[0]}")
        return (model, info) if wants_info else model

    def save_pretrained(self, save_directory: str | os.PathLike[str], *args: Any, **kwargs: Any) -> None:
        """Write config, safetensors, tokenizers and (where there is none yet) a model card to a folder."""
        with quiet_transformers():
            super().save_pretrained(save_directory, *args, **kwargs)
        folder = Path(save_directory)
        for side in ("passage", "critique"):
            if (tokenizer := getattr(self, f"{side}_tokenizer")) is not None:
                tokenizer.save_pretrained(folder / f"{side}_tokenizer")
        self.save_reference(folder)
        if not (folder / "README.md").exists():
            (folder / "README.md").write_text(basic_card(self), encoding="utf-8")

    def save_reference(self, folder: Path) -> None:
        """Write the reference passages' embeddings, where there are any; half precision is plenty."""
        if self.reference is not None:
            save_file({"passages": self.reference.half().contiguous()}, folder / REFERENCE)

    def push_to_hub(  # type: ignore[override]
        self,
        repo_id: str,
        *,
        commit_message: str = "Upload CARP model",
        private: bool | None = None,
        token: str | bool | None = None,
        revision: str | None = None,
        create_pr: bool = False,
        **options: Any,
    ) -> str:
        """Upload everything that ``save_pretrained`` writes; returns the commit's address."""
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder, **options)
            return push_folder(
                Path(folder),
                repo_id,
                private=private,
                revision=revision,
                message=commit_message,
                token=token,
                create_pr=create_pr,
            )

    # -- training --------------------------------------------------------------------------------------

    def forward(
        self,
        passages: TokenizedTexts | Mapping[str, Any],
        critiques: TokenizedTexts | Mapping[str, Any],
        tokens_per_chunk: int | None = None,
        graph_bytes: float = 0,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Embed pairs; differentiable.

        Args:
            passages, critiques: ``n`` texts each, as the tokenizers return them.
            tokens_per_chunk: ``None`` embeds everything at once; else see
                :func:`~carp.model.chunked.embed_in_chunks`.
            graph_bytes: memory for the graphs of chunks that then need no second pass.

        Returns:
            Passage embeddings [n, dim], critique embeddings [n, dim], and exp(logit_scale).
        """
        budget = GraphBudget(graph_bytes)
        return (
            embed_in_chunks(self.passage_tower, TokenizedTexts.of(passages), tokens_per_chunk, budget),
            embed_in_chunks(self.critique_tower, TokenizedTexts.of(critiques), tokens_per_chunk, budget),
            self.logit_scale.exp().squeeze(),
        )

    @torch.no_grad()
    def clamp_logit_scale(self) -> None:
        """Keep the logit scale within [ln(1/100), ln(100)]; to be called after every optimiser step."""
        self.logit_scale.clamp_(*LOGIT_SCALE_BOUNDS)

    # -- embedding texts -------------------------------------------------------------------------------

    def encode_passages(self, texts: str | Sequence[str], *, progress: bool = False) -> Tensor:
        """Embed story passages.

        Args:
            texts: one text or ``n`` of them; what exceeds the context length is cut.
            progress: show a progress bar.

        Returns:
            [n, dim] embeddings of unit length on the model's device. They do not depend on which texts are
            embedded together: within 1e-5 in float32.

        Raises:
            InputError: if a text is empty or no string.
        """
        return self.encode("passage", texts, progress=progress)

    def encode_critiques(self, texts: str | Sequence[str], *, progress: bool = False) -> Tensor:
        """Embed critiques; the same as :meth:`encode_passages` with the other tower."""
        return self.encode("critique", texts, progress=progress)

    def encode(
        self, side: Side, texts: str | Sequence[str], *, progress: bool = False, using: Embedder | None = None
    ) -> Tensor:
        """Embed texts of one side, each different one once; ``using`` is what embeds, by default this model."""
        texts = checked_texts([texts] if isinstance(texts, str) else texts, side)
        different, rows = different_texts(texts)
        blocks = []
        with tqdm(total=len(different), unit="text", desc=f"{side}s", disable=not progress) as bar:
            for start in range(0, len(different), TEXTS_PER_BLOCK):
                tokenized = self.tokenize(side, different[start : start + TEXTS_PER_BLOCK])
                blocks.append((using or self).embed_tokenized(side, tokenized, bar))
        return torch.cat(blocks)[rows.to(self.device)]

    def tokenize(self, side: Side, texts: Sequence[str]) -> TokenizedTexts:
        """Token ids of texts, cut at the side's context length."""
        tokenizer = self.tokenizer(side)
        limit = getattr(self.config, f"max_{side}_tokens")
        return TokenizedTexts.from_lists(tokenizer(list(texts), truncation=True, max_length=limit)["input_ids"])

    def tokenizer(self, side: Side) -> PreTrainedTokenizerBase:
        """The side's tokenizer.

        Raises:
            InputError: if the model was built without tokenizers.
        """
        tokenizer = getattr(self, f"{side}_tokenizer")
        if tokenizer is None:
            raise InputError(f"the model has no {side} tokenizer: set model.{side}_tokenizer")
        return tokenizer

    @torch.inference_mode()
    def embed_tokenized(self, side: Side, texts: TokenizedTexts, bar: Any = None) -> Tensor:
        """[n, dim] embeddings of tokenised texts, without dropout; ``bar`` is advanced by the texts done."""
        tower: TextTower = getattr(self, f"{side}_tower")
        chunks = plan_chunks(texts.lengths, TOKENS_PER_CHUNK.get(self.device.type, MANY_TOKENS))
        embeds = []
        with _evaluating(tower):
            for rows in chunks:
                embeds.append(tower.embed(texts, rows))
                if bar is not None:
                    bar.update(len(rows))
        return torch.cat(embeds)[torch.cat(chunks).argsort().to(self.device)]


class Embedder(Protocol):
    """What embeds tokenised texts: a model, or several of them."""

    def embed_tokenized(self, side: Side, texts: TokenizedTexts, bar: Any = None) -> Tensor: ...


def different_texts(texts: Sequence[str]) -> tuple[list[str], Tensor]:
    """The different ones among ``n`` texts, in their order, and for each text [n] which one it is."""
    places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    return list(places), torch.tensor([places[text] for text in texts])


def checked_texts(texts: Sequence[str], what: str) -> list[str]:
    """Texts that a tokenizer can take: strings, not empty, lone surrogates replaced.

    Raises:
        InputError: names the text that is no string or is empty.
    """
    if not isinstance(texts, Iterable):
        raise InputError(f"{what} is of type {type(texts).__name__}: give a string or a list of strings")
    checked = []
    for i, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InputError(f"{what} {i} is of type {type(text).__name__}: give a string")
        if not text.strip():
            raise InputError(f"{what} {i} is empty: give it some text or leave it out")
        checked.append(text.encode("utf-8", "replace").decode("utf-8"))
    if not checked:
        raise InputError(f"there is no {what}: give at least one")
    return checked


def _saved_tokenizer(folder: Path, side: str) -> Any:
    if is_compact(folder):
        return load_compact_tokenizer(folder)
    return AutoTokenizer.from_pretrained(folder, subfolder=f"{side}_tokenizer")


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
