"""Embeddings of many texts, kept in a Parquet file and scored without their texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from carp.errors import InputError
from carp.files import written_file
from carp.model.carp_model import CarpModel, Side, checked_texts
from carp.scoring.encoding import Window, embed_stories, embedder
from carp.scoring.loading import found_model

METADATA = b"carp"
SIDES = ("passage", "critique")


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Embedded texts.

    The scalar product of a passage's vector and a critique's is their score. The vector of a long story is the mean
    over its windows, so it is shorter than 1.

    Attributes:
        ids: ``n`` names of the texts.
        vectors: [n, dim] float32.
        side: ``"passage"`` or ``"critique"``.
        model: name of the model.
        fingerprint: of the model's weights.
    """

    ids: list[str]
    vectors: NDArray[np.float32]
    side: Side
    model: str
    fingerprint: str

    def save(self, path: str | Path) -> None:
        """Write a Parquet file: columns ``id`` and ``embedding``; the rest is metadata of the schema."""
        target = Path(path)
        flat = pa.array(np.ascontiguousarray(self.vectors, np.float32).reshape(-1))
        embedding = pa.FixedSizeListArray.from_arrays(flat, self.vectors.shape[1])
        about = {"side": self.side, "model": self.model, "fingerprint": self.fingerprint}
        table = pa.table({"id": pa.array(self.ids, pa.string()), "embedding": embedding})
        target.parent.mkdir(parents=True, exist_ok=True)
        with written_file(target) as draft:
            # Floats that are all different: a dictionary of them would only cost time.
            pq.write_table(table.replace_schema_metadata({METADATA: json.dumps(about)}), draft, use_dictionary=["id"])

    @classmethod
    def load(cls, path: str | Path) -> Embeddings:
        """Read what :meth:`save` has written.

        Raises:
            InputError: if the file is none of those.
        """
        try:
            table = pq.read_table(path)
            about = json.loads((table.schema.metadata or {})[METADATA])
            column = table["embedding"].combine_chunks()
            vectors = column.flatten().to_numpy().reshape(len(table), column.type.list_size)
            return cls(table["id"].to_pylist(), vectors, about["side"], about["model"], about["fingerprint"])
        except FileNotFoundError as error:
            raise InputError(f"{path}: no such file") from error
        except (KeyError, ValueError, OSError, pa.ArrowException, AttributeError) as error:
            raise InputError(f"{path}: no embeddings that  carp embed  has written") from error

    def expect_model(self, model: CarpModel, side: Side) -> None:
        """Make sure that the vectors are those of a model's tower.

        Raises:
            InputError: if they are of another model, or the other side.
        """
        if self.side != side:
            raise InputError(f"these are embeddings of {self.side}s: give those of {side}s")
        if self.fingerprint != fingerprint(model):
            raise InputError(
                f"these embeddings were made by {self.model}, not by the model that is to score "
                f"({model.config._name_or_path}), or in another precision: use the same one"
            )


def embed(
    texts: Sequence[str],
    *,
    side: Side = "passage",
    ids: Sequence[str] | None = None,
    model: CarpModel | str | None = None,
    window: Window = "context",
    devices: Sequence[str] = (),
    progress: bool = False,
) -> Embeddings:
    """Embed stories or critiques, to be kept and scored later.

    Args:
        texts: ``n`` stories (``side="passage"``) or critiques (``side="critique"``).
        ids: names of the texts; by default their numbers from 1.
        model, window, devices: see :func:`~carp.scoring.score.score`; critiques have no windows.
        progress: show a progress bar.

    Raises:
        InputError: if a text is empty, there is none, or the model or a device cannot be had.

    Example:
        >>> found = embed(["It rained.", "She ran."], model=model)
        >>> found.vectors.shape
        (2, 24)
    """
    if side not in SIDES:
        raise InputError(f"side={side!r}: choose {' or '.join(SIDES)}")
    texts = checked_texts(texts, "story" if side == "passage" else "critique")
    names = [str(i) for i in range(1, len(texts) + 1)] if ids is None else list(ids)
    if len(names) != len(texts):
        raise InputError(f"{len(names)} ids for {len(texts)} texts: give one for each")
    loaded = found_model(model)
    with embedder(loaded, devices) as using:
        if side == "passage":
            vectors = embed_stories(loaded, texts, window, progress, using)
        else:
            vectors = loaded.encode_critiques(texts, progress=progress)
    return Embeddings(names, vectors.cpu().numpy(), side, str(loaded.config._name_or_path), fingerprint(loaded))


def fingerprint(model: CarpModel) -> str:
    """A hash of all weights, 16 hexadecimal digits; independent of the device, not of the precision."""
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
