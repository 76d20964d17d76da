"""All steps over all files: in parallel, in bounded memory, resumable.

1. The input is divided into tasks of some stories. Each makes one part: an Arrow file in ``OUT/.work``, renamed when
   it is whole. A part that is there already is not made again.
2. The hashes of all pairs (24 bytes each) decide what is a duplicate, what is validation and in which order pairs are
   written; the texts stay in the memory-mapped parts.
   Rejected records and possible names are held in memory too, for the lists.
3. The shards are written, one after the other, then the counts, and ``OUT/.work`` goes.

Killed at any moment, the same command continues and gives the same bytes: nothing depends on time, on chance or on
which process does what.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tqdm.auto import tqdm

from carp.data.preparation.card import write_card
from carp.data.preparation.merging import merge
from carp.data.preparation.options import PreparationOptions
from carp.data.preparation.raw import RawRecord, check_files, digest_and_count, read_raw
from carp.data.preparation.token_ends import serialized_tokenizer
from carp.data.preparation.worker import make_part, start
from carp.errors import InputError
from carp.files import written_file
from carp.model.encoders import load_tokenizer
from carp.versions import versions

RECORDS_PER_TASK = 64
TASKS_AHEAD = 2  # of every process: read, but not begun
WORK = ".work"
COUNTS = "counts.json"


def prepare(
    sources: Sequence[str | Path],
    out: str | Path,
    options: PreparationOptions | None = None,
    *,
    processes: int = 1,
    progress: bool = False,
) -> dict[str, int]:
    """Turn raw stories with comments into clean pairs (CARP, sections 2.1-2.2).

    Args:
        sources: files of raw records; see the README.
        out: folder for ``train/*.parquet``, ``validation/*.parquet``, ``README.md`` (a data card), ``counts.json``,
            ``rejected.jsonl`` and ``spot_check.csv``. Where an earlier call was interrupted, it is continued.
        options: which steps, and how.
        processes: that work in parallel.
        progress: show a progress bar.

    Returns:
        Counts by step.

    Raises:
        InputError: if a file cannot be read, a model cannot be had, or the folder holds something else.
    """
    job = begin(sources, out, options)
    make_parts(job, processes=processes, progress=progress)
    return finish(job, progress)


@dataclass(frozen=True)
class Job:
    """What all who work on a data set have to know; it can be sent to other machines that see the same files.

    Attributes:
        paths: the raw files.
        out: the folder of the data set.
        options: which steps, and how.
        records: their number.
        salt: of the hashes that are published. It is the hash of the input: who has not the stories cannot guess it,
            and the same input gives the same.
    """

    paths: tuple[Path, ...]
    out: Path
    options: PreparationOptions
    records: int
    salt: str

    @property
    def work(self) -> Path:
        return self.out / WORK


def begin(sources: Sequence[str | Path], out: str | Path, options: PreparationOptions | None = None) -> Job:
    """Check everything and make the folder; the arguments are those of :func:`prepare`.

    Raises:
        InputError: if a file cannot be read, or the folder holds something else.
    """
    options = options or PreparationOptions()
    paths, folder = tuple(Path(source).absolute() for source in sources), Path(out).absolute()
    check_files(paths)
    if (folder / COUNTS).exists():
        raise InputError(f"{folder}: prepared already; name another folder, or remove it")
    salt, records = digest_and_count(paths)
    _claim(folder, {"input": salt, **options.as_dict(), "versions": versions()})
    return Job(paths, folder, options, records, salt)


def make_parts(job: Job, *, share: int = 0, of: int = 1, processes: int = 1, progress: bool = False) -> None:
    """Make the parts that are not there yet, or this one's ``share`` ``of`` them where several machines work.

    Raises:
        InputError: if a model cannot be had.
    """
    what_all_need = (job.options, serialized_tokenizer(load_tokenizer(job.options.tokenizer)))
    with tqdm(total=job.records, unit="record", desc="preparing", disable=not progress, smoothing=0.05) as bar:
        tasks = _open_tasks(job, share, of, bar)
        if processes == 1:
            start(*what_all_need)
            for target, task in tasks:
                make_part(target, task)
                bar.update(len(task))
            return
        with ProcessPoolExecutor(processes, mp.get_context("spawn"), initializer=start, initargs=what_all_need) as pool:
            _run_all(pool, tasks, processes * TASKS_AHEAD, bar)


def finish(job: Job, progress: bool = False) -> dict[str, int]:
    """Turn the parts, all of which must be there, into the data set; returns the counts by step.

    Raises:
        InputError: if there are too few pairs for validation.
    """
    counts = merge(job.work, job.out, job.options, job.salt, progress)
    write_card(job.out, job.paths, job.options, counts)
    with written_file(job.out / COUNTS) as draft:
        draft.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
    shutil.rmtree(job.work)
    return dict(counts)


def _claim(folder: Path, identity: dict[str, object]) -> None:
    """Make the folder for the parts, or make sure that the one that is there is of the same job."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: a file; name a folder")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / WORK).is_dir():
        raise InputError(f"{folder}: holds other files; name a new folder")
    (folder / WORK).mkdir(parents=True, exist_ok=True)
    note = folder / WORK / "job.json"
    text = json.dumps(identity, sort_keys=True)
    if note.exists() and note.read_text(encoding="utf-8") != text:
        raise InputError(f"{folder}: was begun with other input, options or versions; name another folder")
    with written_file(note) as draft:
        draft.write_text(text, encoding="utf-8")


def _open_tasks(job: Job, share: int, of: int, bar: tqdm) -> Iterator[tuple[Path, list[RawRecord]]]:
    """The tasks of a share whose parts are not there yet."""
    records = read_raw(job.paths)
    number = 0
    while task := list(islice(records, RECORDS_PER_TASK)):
        target = job.work / f"part-{number:06d}.arrow"
        if number % of == share and not target.exists():
            yield target, task
        else:
            bar.update(len(task))
        number += 1


def _run_all(pool: ProcessPoolExecutor, tasks: Iterator[tuple[Path, list[RawRecord]]], ahead: int, bar: tqdm) -> None:
    running: dict[Future[None], int] = {}
    try:
        for target, task in tasks:
            running[pool.submit(make_part, target, task)] = len(task)
            if len(running) >= ahead:
                _collect(running, bar)
        while running:
            _collect(running, bar)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise


def _collect(running: dict[Future[None], int], bar: tqdm) -> None:
    for done in wait(running, return_when=FIRST_COMPLETED).done:
        bar.update(running.pop(done))
        done.result()
