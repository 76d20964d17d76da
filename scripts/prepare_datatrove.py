"""`carp prepare` on several machines, by the executors of datatrove (pip install datatrove).

    python scripts/prepare_datatrove.py raw.jsonl.gz --out pairs --tasks 8 --workers 2
    python scripts/prepare_datatrove.py raw.jsonl.gz --out pairs --tasks 256 --slurm PARTITION --time 04:00:00

All machines have to see the raw files and the folder. A task makes every n-th part; what is there already is not made
again, so the same command continues after an interruption. The bytes are those of `carp prepare` on one machine.
Under Slurm the command returns when the tasks are queued; run it once more when they are done, and it joins the parts.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from typing import Any

from carp.cli.main import quieten_libraries
from carp.data.preparation.options import PreparationOptions
from carp.data.preparation.pipeline import RECORDS_PER_TASK, Job, begin, finish, make_parts
from carp.errors import CarpError


def share_of_parts(data: Any, rank: int, world_size: int, job: Job) -> Any:
    """A step of a datatrove pipeline."""
    make_parts(job, share=rank, of=world_size)
    return data


def run(job: Job, options: argparse.Namespace) -> None:
    from datatrove.executor import LocalPipelineExecutor, SlurmPipelineExecutor

    common = {
        "pipeline": [partial(share_of_parts, job=job)],
        "tasks": options.tasks,
        "logging_dir": str(job.work / "datatrove"),
        "skip_completed": False,  # carp knows which parts are there
    }
    if options.slurm:
        SlurmPipelineExecutor(partition=options.slurm, time=options.time, job_name="carp-prepare", **common).run()
    else:
        LocalPipelineExecutor(workers=options.workers, **common).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", nargs="+", help="raw stories with comments")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2, help="processes of the local executor")
    parser.add_argument("--slurm", metavar="PARTITION", help="queue the tasks there")
    parser.add_argument("--time", default="04:00:00", help="of a Slurm task")
    parser.add_argument("--no-anonymize", action="store_true")
    parser.add_argument("--validation-pairs", type=int, default=1000)
    options = parser.parse_args()
    quieten_libraries()
    try:
        settings = PreparationOptions(anonymize=not options.no_anonymize, validation_pairs=options.validation_pairs)
        job = begin(options.raw, options.out, settings)
        parts = -(-job.records // RECORDS_PER_TASK)
        if len(list(job.work.glob("part-*.arrow"))) < parts:
            run(job, options)
        if len(list(job.work.glob("part-*.arrow"))) == parts:
            print(finish(job))
    except CarpError as error:
        print(f"carp: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
