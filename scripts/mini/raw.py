"""Raw records that carp-mini is trained on, and those that it is measured on: no story is on both sides.

    python scripts/mini/raw.py ../shared/data --out work

Writes into the folder, for `carp prepare`:

critiques.jsonl     stories with the critiques that people and a language model wrote of them
remarks.jsonl       the same stories, and marked spans, with the remarks of remarks.yaml that fit their labels
heldout.jsonl       stories that are kept aside, with everything that is known of them
heldout_spans.jsonl marked paragraphs that are kept aside

Which story is kept aside follows from a hash of its text alone. A criterion's scores are standardised among the stories
of one prompt, so that no remark stands for a topic.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from statistics import mean, pstdev
from typing import Any

import yaml

from carp.data.preparation.sentences import sentence_starts
from carp.data.records import read_records
from carp.files import written_file

Raw = dict[str, Any]

HELD_OUT = {"eqbench_creative_writing_v3": 0.155, "ttcw": 0.5, "storyer": 0.2}  # shares of the stories
HELD_OUT_SPANS = 0.4  # of the paragraphs
CLEAR = 0.7  # standard deviations from the prompt's mean at which a score is high or low
REMARKS_PER_STORY = 6
RATINGS = {"storyer": (1, 5), "ttcw": (0, 1)}  # by people: the worst and the best
CLEAR_RATING = (0.4, 0.6)  # of the way from the worst to the best: below is low, above is high
PLACES_PER_RATING = 4


def share_of(text: str) -> float:
    """A number in [0, 1) that follows from a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64


def is_held_out(record: Raw) -> bool:
    return share_of(record["story"]) < HELD_OUT[record["source"]]


def standardised(records: Iterable[Raw]) -> dict[str, dict[str, float]]:
    """Story -> criterion -> its score in standard deviations from the mean of the prompt's stories."""
    scores: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for record in records:
        for criterion, score in record["meta"].get("scores", {}).items():
            scores[record["meta"]["prompt_id"], criterion].append((record["story_id"], score))
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for (_, criterion), of_prompt in scores.items():
        values = [score for _, score in of_prompt]
        for story, score in of_prompt:
            found[story][criterion] = (score - mean(values)) / (pstdev(values) or 1)
    return found


def criteria_remarks(record: Raw, scores: dict[str, float], remarks: Raw) -> Iterator[Raw]:
    """Comments on places of a story that say what its scores say."""
    rng = Random(record["story_id"])
    clear = [criterion for criterion in remarks["criteria"] if abs(scores.get(criterion, 0)) >= CLEAR]
    starts = sentence_starts(record["story"])
    for criterion in rng.sample(clear, min(REMARKS_PER_STORY, len(clear))):
        side = "high" if scores[criterion] > 0 else "low"
        start = rng.choice(starts)
        yield {
            "text": rng.choice(remarks["criteria"][criterion][side]),
            "start": start,
            "end": start + 1,
            "aspect": f"{criterion}: {side}",
        }


def rating_remarks(record: Raw, remarks: Raw) -> Iterator[Raw]:
    """Comments on places of a story that say what people's ratings of its aspects say."""
    rng = Random(record["story_id"])
    starts = sentence_starts(record["story"])
    for aspect, rating in people_ratings(record).items():
        if CLEAR_RATING[0] <= rating <= CLEAR_RATING[1]:
            continue
        side = "high" if rating > CLEAR_RATING[1] else "low"
        for start in rng.sample(starts, min(PLACES_PER_RATING, len(starts))):
            yield {
                "text": rng.choice(remarks["ratings"][aspect][side]),
                "start": start,
                "end": start + 1,
                "aspect": f"{aspect}: {side}",
            }


def people_ratings(record: Raw) -> dict[str, float]:
    """Aspect -> people's mean rating of it, from 0 (worst) to 1 (best); crowd readers' mean over all aspects too."""
    if record["source"] not in RATINGS:
        return {}
    worst, best = RATINGS[record["source"]]
    ratings: dict[str, list[float]] = defaultdict(list)
    for comment in record["comments"]:
        if comment.get("aspect"):
            part = (comment["rating"] - worst) / (best - worst)
            ratings[comment["aspect"]].append(part)
            if record["source"] == "storyer":
                ratings["the whole"].append(part)
    return {aspect: mean(of) for aspect, of in ratings.items()}


def span_records(record: Raw, remarks: Raw) -> Iterator[Raw]:
    """Marked spans, alone and in their paragraph, with a remark; an expert's rewriting with another one."""
    rng = Random(record["id"])
    in_place = []
    for span in record["annotations"]:
        if span["category"] not in remarks["spans"]:
            continue
        aspect = f"span: {span['category']}"
        text = record["text"][span["start"] : span["end"]]
        phrases = rng.sample(remarks["spans"][span["category"]], 2)
        in_place.append({"text": phrases[0], "start": span["start"], "end": span["end"], "aspect": aspect})
        yield span_record(text, {"text": phrases[1], "aspect": aspect})
        if span.get("replacement", "").strip():
            yield span_record(span["replacement"], {"text": rng.choice(remarks["fine"]), "aspect": "span: rewritten"})
    yield span_record(record["text"], *in_place)


def span_record(text: str, *comments: Raw) -> Raw:
    return {"story": text, "source": "spans", "topic": "spans", "comments": list(comments)}


def with_comments(record: Raw, comments: list[Raw], topic: str | None = None) -> Raw:
    """What `carp prepare` needs of a story; its topic is its prompt, unless another one is given."""
    return {
        "story": record["story"],
        "source": record["source"],
        "topic": topic or record["meta"].get("prompt_id"),
        "comments": comments,
    }


def write(path: Path, records: Iterable[Raw]) -> None:
    with written_file(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "data", type=Path, help="folder with critiques.jsonl.gz, spans.jsonl.gz, storyer_ratings.jsonl.gz"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    remarks = yaml.safe_load((Path(__file__).parent / "remarks.yaml").read_text(encoding="utf-8"))
    rated = {record["text"] for _, record in read_records(options.data / "storyer_ratings.jsonl.gz")}
    records = [
        record for _, record in read_records(options.data / "critiques.jsonl.gz") if record["story"] not in rated
    ]
    held_out = [record for record in records if is_held_out(record)]
    training = [record for record in records if not is_held_out(record)]
    scores = standardised(training)
    spans = [record for _, record in read_records(options.data / "spans.jsonl.gz")]
    kept = [share_of(record["meta"]["paragraph_key"]) >= HELD_OUT_SPANS for record in spans]
    write(options.out / "critiques.jsonl", (with_comments(record, record["comments"]) for record in training))
    write(
        options.out / "remarks.jsonl",
        [
            *(
                with_comments(record, comments)
                for record in training
                if (comments := list(criteria_remarks(record, scores[record["story_id"]], remarks)))
            ),
            *(
                with_comments(record, comments, topic=f"rated: {record['source']}")
                for record in training
                if (comments := list(rating_remarks(record, remarks)))
            ),
            *(
                made
                for record, is_kept in zip(spans, kept, strict=True)
                if is_kept
                for made in span_records(record, remarks)
            ),
        ],
    )
    write(options.out / "heldout.jsonl", held_out)
    write(
        options.out / "heldout_spans.jsonl",
        (record for record, is_kept in zip(spans, kept, strict=True) if not is_kept),
    )
    print(
        f"{len(training)} stories to train on, {len(held_out)} kept aside; "
        f"{sum(kept)} paragraphs to train on, {len(kept) - sum(kept)} kept aside"
    )


if __name__ == "__main__":
    main()
