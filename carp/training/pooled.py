"""What training needs of encoders that do not change: each text's pooled states, computed once and kept on disk.

Steps then compute projections and the loss only, and another run over the same texts encodes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor
from tqdm.auto import tqdm

from carp.data.tokenized import Batch, TokenizedPairs
from carp.errors import InputError
from carp.files import written_file
from carp.model.carp_model import CarpModel
from carp.model.compact import weights_digest
from carp.model.texts import TokenizedTexts, plan_chunks
from carp.model.tower import TextTower
from carp.training.setup import TrainingData

SHARD = 1024  # texts of a file: what an interruption may lose
ROWS = 8192  # pairs that are looked through at a time


class PooledStates:
    """Pooled states of texts by the fingerprint of their tokens, read from files that only ever get more.

    Args:
        folder: of the files; there is one for each encoder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read()

    def read(self) -> None:
        """See what is in the folder by now."""
        shards = [load_file(path) for path in sorted(self.folder.glob("*.safetensors"))]
        known = torch.cat([torch.empty(0, dtype=torch.long), *(shard["fingerprints"] for shard in shards)])
        self._known, self._order = known.sort(stable=True)
        self._states = torch.cat([shard["states"] for shard in shards]) if shards else torch.empty(0)

    def lacks(self, fingerprints: Tensor) -> Tensor:
        """[n] whether nothing is known of a text."""
        return ~torch.isin(fingerprints, self._known)

    def of(self, texts: TokenizedTexts) -> Tensor:
        """[n, hidden] the states of texts.

        Raises:
            InputError: if one is not known.
        """
        fingerprints = texts.fingerprints()
        if self.lacks(fingerprints).any():
            raise InputError(f"{self.folder}: states of some texts are missing: let all machines share data.cache")
        return self._states[self._order[torch.searchsorted(self._known, fingerprints)]]

    @torch.inference_mode()
    def add(self, tower: TextTower, texts: TokenizedTexts, tokens_per_chunk: int) -> None:
        """Compute the states of up to ``SHARD`` texts and write them to a file of their own."""
        chunks = plan_chunks(texts.lengths, tokens_per_chunk)
        states = torch.cat([tower.pool(texts, rows).float().cpu() for rows in chunks])
        fingerprints = texts.fingerprints()[torch.cat(chunks)]
        self.folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.blake2b(fingerprints.numpy().tobytes(), digest_size=12).hexdigest()
        with written_file(self.folder / f"{name}.safetensors") as draft:
            save_file({"fingerprints": fingerprints, "states": states}, draft)


class PooledPairs(TokenizedPairs):
    """Tokenised pairs that know the pooled states of their texts."""

    def __init__(self, pairs: TokenizedPairs, passages: PooledStates, critiques: PooledStates) -> None:
        self.info, self._table = pairs.info, pairs._table
        self._passages, self._critiques = passages, critiques

    def batch(self, rows: NDArray[np.int64]) -> Batch:
        batch = super().batch(rows)
        return batch._replace(
            passages=batch.passages.with_pooled(self._passages.of(batch.passages)),
            critiques=batch.critiques.with_pooled(self._critiques.of(batch.critiques)),
        )


def with_pooled_states(
    data: TrainingData, model: CarpModel, cache: Path, accelerator: Accelerator, tokens_per_chunk: int
) -> TrainingData:
    """The same data with pooled states; the processes divide the work on those that are not known yet.

    Args:
        model: with encoders that stay as they are.
        cache: folder that keeps the states, for other runs with the same encoders too.
        tokens_per_chunk: that are computed at a time.
    """
    model.to(accelerator.device).eval()
    sides = {}
    for side in ("passages", "critiques"):
        tower: TextTower = getattr(model, f"{side[:-1]}_tower")
        states = PooledStates(cache / "pooled" / pooled_key(tower, accelerator.mixed_precision != "no"))
        accelerator.wait_for_everyone()  # or one process would see what another one has just written
        with (
            accelerator.autocast(),
            tqdm(unit="text", desc=f"encoding {side}", disable=not accelerator.is_main_process) as bar,
        ):
            for texts in _unknown(data, side, states, accelerator):
                states.add(tower, texts, tokens_per_chunk)
                bar.update(len(texts) * accelerator.num_processes)
        accelerator.wait_for_everyone()
        states.read()
        sides[side] = states
    return data._replace(
        pairs=PooledPairs(data.pairs, **sides), validation_pairs=PooledPairs(data.validation_pairs, **sides)
    )


def pooled_key(tower: TextTower, half: bool) -> str:
    """What pooled states depend on besides the text: weights, pooling, and whether they are of half precision."""
    weights = weights_digest({name: weight.cpu() for name, weight in tower.encoder.state_dict().items()})
    return f"{weights}-{tower.pooling}" + ("-half" if half else "")


def _unknown(data: TrainingData, side: str, states: PooledStates, accelerator: Accelerator) -> Iterator[TokenizedTexts]:
    """This process's share of the different texts that nothing is known of, up to ``SHARD`` at a time."""
    met: set[int] = set()
    for pairs in (data.pairs, data.validation_pairs):
        for start in range(0, len(pairs), ROWS):
            texts: TokenizedTexts = getattr(pairs.batch(np.arange(start, min(start + ROWS, len(pairs)))), side)
            fingerprints = texts.fingerprints()
            lacking = states.lacks(fingerprints).tolist()
            new = {
                fingerprint: row
                for row, fingerprint in enumerate(fingerprints.tolist())
                if lacking[row] and fingerprint not in met
            }
            met |= new.keys()
            shards = torch.tensor(list(new.values()), dtype=torch.long).split(SHARD)
            for rows in shards[accelerator.process_index :: accelerator.num_processes]:
                if len(rows):
                    yield texts.take(rows)
