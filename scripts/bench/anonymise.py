"""How long anonymising takes beside spaCy's entity recogniser alone, on the same stories and critiques.

    OMP_NUM_THREADS=1 python scripts/bench/anonymise.py critiques.jsonl.gz --stories 20 --rounds 5

Records have ``story`` and ``comments`` (each with ``text``). Both ways run in this process and take turns; the whole
recognises all texts as one batch, then finds, masks and replaces story by story.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from statistics import median

import spacy
from spacy.language import Language
from workers import machine_line, markdown_table, ratio

from carp.data.preparation.entities import Recognizer
from carp.data.preparation.identifiers import mask_identifiers
from carp.data.preparation.names import Names
from carp.data.preparation.recognition import make_recognizer
from carp.data.preparation.spacy_recognition import BATCH, SPACY_PIPELINE
from carp.data.records import read_records

Stories = list[list[str]]


def entity_recognizer(pipeline: str) -> Callable[[Stories], None]:
    """A spaCy pipeline with nothing but its entity recogniser (and what that needs)."""
    nlp = spacy.load(pipeline)
    needed = ["tok2vec", "transformer", "ner"]
    nlp.select_pipes(enable=[name for name in needed if name == "ner" or "ner" in listeners(nlp, name)])

    def recognise(stories: Stories) -> None:
        for _ in nlp.pipe((text for texts in stories for text in texts), batch_size=BATCH):
            pass

    return recognise


def listeners(nlp: Language, name: str) -> Sequence[str]:
    return nlp.get_pipe(name).listening_components if name in nlp.pipe_names else ()


def anonymizer(recognizer: Recognizer) -> Callable[[Stories], None]:
    def anonymise(stories: Stories) -> None:
        found = iter(recognizer.entities([text for texts in stories for text in texts]))
        for texts in stories:
            names = Names.of(texts, [next(found) for _ in texts])
            for text in texts:
                names.replace(mask_identifiers(text).text)

    return anonymise


def seconds(work: Callable[[Stories], None], stories: Stories) -> float:
    began = time.perf_counter()
    work(stories)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="stories with comments")
    parser.add_argument("--pipeline", default=SPACY_PIPELINE, help="of spaCy")
    parser.add_argument("--stories", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of both, after one that is not")
    options = parser.parse_args()
    records = [record for _, record in read_records(options.file)]
    drawn = random.Random(0).sample(records, min(options.stories, len(records)))
    stories = [[record["story"], *(comment["text"] for comment in record["comments"])] for record in drawn]
    recognizer = make_recognizer(f"spacy:{options.pipeline}")
    alone, whole = "the entity recogniser alone", "anonymising"
    ways = {alone: entity_recognizer(options.pipeline), whole: anonymizer(recognizer)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(options.rounds + 1):
        for name in list(ways)[:: 1 if i % 2 else -1]:
            taken = seconds(ways[name], stories)
            if i > 0:
                found[name].append(taken)
    words = sum(len(text.split()) for texts in stories for text in texts)
    rows = [[name, f"{median(s):.2f}", f"{min(s):.2f}", f"{ratio(s, found[alone]):.3f}"] for name, s in found.items()]
    print(f"{machine_line('spacy')}\n")
    print(f"{len(stories)} stories, {words} words; medians of {options.rounds} rounds, the ratio too:\n")
    print(markdown_table([options.pipeline, "seconds", "fastest", "time / recogniser's"], rows))


if __name__ == "__main__":
    main()
