"""The data card: what a prepared data set is and how it was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from carp.data.preparation.options import PreparationOptions
from carp.files import written_file
from carp.versions import versions

CARD = """---
task_categories: [sentence-similarity]
configs:
- config_name: default
  data_files:
  - split: train
    path: train/*.parquet
  - split: validation
    path: validation/*.parquet
---
# Story-critique pairs

Made by `carp prepare` from {sources}.

Columns: `passage`; `critique`; `group`, a salted hash of the story, whose pairs are not each other's negatives;
`alignment`, how the passage was found (offsets, quotation, window, beginning; whole: the story fits); `aspect`, the
type of the critique where the source names one; `source`; `topic`, of stories that resemble each other, such as
those to one prompt, where the source names it; `critique_words`. Each story is in training or in validation, never in
both; the rows are in the order of a hash.

| step | setting |
|---|---|
{settings}

| count | |
|---|---|
{counts}

`rejected.jsonl` has the records that could not be used, `spot_check.csv` possible names that were not replaced.

Licence and origin are those of the sources: name them before you share this.

Versions: {versions}.
"""


def write_card(folder: Path, sources: Sequence[Path], options: PreparationOptions, counts: Counter[str]) -> None:
    """Write ``README.md`` in the form that the Hub reads."""
    text = CARD.format(
        sources=", ".join(f"`{source.name}`" for source in sources),
        settings="\n".join(f"| {name} | {value} |" for name, value in options.as_dict().items()),
        counts="\n".join(f"| {name} | {count} |" for name, count in sorted(counts.items())),
        versions=", ".join(f"{name} {version}" for name, version in versions().items()),
    )
    with written_file(folder / "README.md") as draft:
        draft.write_text(text, encoding="utf-8")
