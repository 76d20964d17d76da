"""Embedding on several devices, or in several processes of one CPU: a copy of the model for each."""

from __future__ import annotations

import multiprocessing as mp
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from carp.errors import CarpError
from carp.model.carp_model import CarpModel, Side
from carp.model.int8 import is_int8
from carp.model.texts import TokenizedTexts, plan_chunks
from carp.scoring.loading import checked_device, load

TOKENS_PER_TASK = 32_768  # some chunks: handing a task over costs little beside embedding it

_model: CarpModel  # of a worker process


class EmbeddingWorkers:
    """Processes that embed texts, one on each device; a context manager, they end with it.

    They are spawned: a script that uses them guards its main part with ``if __name__ == "__main__":``. Starting
    them takes seconds, so they pay for thousands of texts.

    Args:
        model: what is copied; one in int8 is loaded again from where it came from.
        devices: e.g. ``["cuda:0", "cuda:1"]``; the CPU may be named several times and divides its threads.

    Raises:
        InputError: if there is no such device.
    """

    def __init__(self, model: CarpModel, devices: Sequence[str]) -> None:
        places = [checked_device(device) for device in devices]
        self._device = model.device
        self._folder = tempfile.TemporaryDirectory()
        if is_int8(model):
            name, precision = str(model.config._name_or_path), "int8"
        else:
            model.save_pretrained(self._folder.name)
            name, precision = self._folder.name, str(model.dtype).removeprefix("torch.")
        threads = max(1, torch.get_num_threads() // max(1, places.count("cpu")))
        context = mp.get_context("spawn")
        queue: Any = context.Queue()
        for place in places:
            queue.put(place)
        self._pool = ProcessPoolExecutor(
            len(places), context, initializer=_start, initargs=(queue, name, precision, threads)
        )

    def embed_tokenized(self, side: Side, texts: TokenizedTexts, bar: Any = None) -> Tensor:
        """The same as :meth:`CarpModel.embed_tokenized`, on the device of the model that was copied.

        Raises:
            CarpError: if a process has ended, e.g. for want of memory.
        """
        tasks: dict[Future[NDArray[np.float32]], Tensor] = {}
        for rows in plan_chunks(texts.lengths, TOKENS_PER_TASK):
            tokens, lengths = texts.flat(rows)
            tasks[self._pool.submit(_embed, side, tokens.numpy(), lengths.numpy())] = rows
        parts, order = [], []
        try:
            for task in as_completed(tasks):
                parts.append(torch.from_numpy(task.result()))
                order.append(tasks[task])
                if bar is not None:
                    bar.update(len(order[-1]))
        except BrokenProcessPool as error:
            raise CarpError("a process that embeds has ended, perhaps for want of memory: use fewer devices") from error
        return torch.cat(parts)[torch.cat(order).argsort()].to(self._device)

    def __enter__(self) -> EmbeddingWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()


def _start(queue: Any, name: str, precision: Any, threads: int) -> None:
    global _model
    torch.set_num_threads(threads)
    _model = load(name, device=queue.get(), precision=precision)


def _embed(side: Side, tokens: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    texts = TokenizedTexts(torch.from_numpy(tokens), torch.from_numpy(lengths))
    return _model.embed_tokenized(side, texts).cpu().numpy()
