"""One set of pairs out of everything that carp-mini is trained on.

    python scripts/mini/pairs.py work --out work/pairs

Reads what `carp prepare` has made of critiques.jsonl and remarks.jsonl, damages passages (carp/data/damage) and pairs
them with remarks that then fit. Pairs of one `group` are not each other's negatives: critiques of a story, remarks on
one criterion, remarks on one kind of damage. Pairs of one `topic` come in the same batches: stories to one prompt,
spans, the versions of one excerpt.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from carp.data.damage.kinds import KINDS
from carp.data.damage.passage import sentences_of, within
from carp.files import written_file

Pair = dict[str, Any]
OF_CARP_MINI = ("critiques", "criteria", "spans", "damage")
SOURCES = (*OF_CARP_MINI, "ratings")
REMARKS = {"eqbench_creative_writing_v3": "criteria", "storyer": "ratings", "ttcw": "ratings", "spans": "spans"}
WORDS = (40, 130)  # of an excerpt
DAMAGED = 4  # versions of an excerpt, beside the one that nothing was done to


def read(folder: Path) -> list[Pair]:
    """Prepared pairs, in their order."""
    columns = ["passage", "critique", "group", "topic", "aspect", "source"]
    rows: list[Pair] = pq.read_table(folder, columns=columns).to_pylist()
    return rows


def remark_pairs(folder: Path) -> Iterator[Pair]:
    for pair in read(folder):
        yield {**pair, "group": pair["aspect"], "source": REMARKS[pair["source"]]}


def damaged_pairs(passages: list[str], wanted: int, fine: list[str]) -> Iterator[Pair]:
    """Excerpts, each damaged in several ways: in one batch, only the writing tells which remark fits which."""
    rng = Random(0)
    kinds = [kind for kind in KINDS if not kind.held_out]
    used: Counter[str] = Counter()
    for number in count():
        text = excerpt(rng.choice(passages), rng)
        versions = {}
        for kind in sorted(kinds, key=lambda kind: used[kind.name]):
            if len(versions) == DAMAGED:
                break
            damaged = kind.damaged(text, "train", seed=rng.randrange(2**31))
            if damaged is not None:
                versions[kind.name] = (damaged, rng.choice(kind.remarks("train")))
        used.update(versions.keys())
        versions["none"] = (text, rng.choice(fine))
        for name, (passage, remark) in versions.items():
            yield {
                "passage": passage,
                "critique": remark,
                "group": f"damage: {name}",
                "topic": f"excerpt {number}",
                "source": "damage",
            }
        if used.total() >= wanted:
            return


def excerpt(passage: str, rng: Random) -> str:
    """Some sentences that follow each other."""
    sentences = sentences_of(passage)
    first = rng.randrange(max(1, len(sentences) // 2))
    return within(rng.randint(*WORDS), sentences[first:]).strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder with the prepared sets critiques and remarks")
    parser.add_argument("--out", type=Path, required=True, help="Parquet file to write")
    parser.add_argument("--damaged", type=int, default=12_000, help="pairs with a damaged passage")
    parser.add_argument("--critiques", type=int, help="of the longer critiques only so many, drawn at random")
    parser.add_argument(
        "--sources",
        nargs="+",
        choices=SOURCES,
        default=OF_CARP_MINI,
        help="what the pairs are made of (all but people's ratings, which have not helped)",
    )
    options = parser.parse_args()
    critiques = read(options.work / "critiques" / "train")
    chosen = critiques if options.critiques is None else Random(0).sample(critiques, options.critiques)
    pairs = [{**pair, "source": "critiques"} for pair in chosen]
    pairs += remark_pairs(options.work / "remarks" / "train")
    fine = yaml.safe_load((Path(__file__).parent / "remarks.yaml").read_text(encoding="utf-8"))["fine"]
    pairs += damaged_pairs(sorted({pair["passage"] for pair in critiques}), options.damaged, fine)
    pairs = [pair for pair in pairs if pair["source"] in options.sources]
    Random(0).shuffle(pairs)
    columns = ("passage", "critique", "group", "topic", "source")
    table = pa.table({name: [pair[name] for pair in pairs] for name in columns})
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with written_file(options.out) as draft:
        pq.write_table(table, draft, compression="zstd")
    print(
        ", ".join(f"{number} of {source}" for source, number in Counter(pair["source"] for pair in pairs).most_common())
    )


if __name__ == "__main__":
    main()
