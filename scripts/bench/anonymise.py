"""How long anonymising takes beside the recogniser alone, on the same stories and critiques.

    OMP_NUM_THREADS=1 python scripts/bench/anonymise.py critiques.jsonl.gz --stories 20 --rounds 5

Records have ``story`` and ``comments`` (each with ``text``). Both ways run in this process and take turns; the whole
recognises all texts as one batch, then finds, masks and replaces story by story.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from statistics import median

from workers import machine_line, markdown_table, ratio

from carp.data.preparation.identifiers import mask_identifiers
from carp.data.preparation.names import Names
from carp.data.preparation.recognition import Recognizer, make_recognizer
from carp.data.records import read_records

Stories = list[list[str]]


def recognise(recognizer: Recognizer, stories: Stories) -> None:
    recognizer.entities([text for texts in stories for text in texts])


def anonymise(recognizer: Recognizer, stories: Stories) -> None:
    found = iter(recognizer.entities([text for texts in stories for text in texts]))
    for texts in stories:
        names = Names.of(texts, [next(found) for _ in texts])
        for text in texts:
            names.replace(mask_identifiers(text).text)


def seconds(work: Callable[[Recognizer, Stories], None], recognizer: Recognizer, stories: Stories) -> float:
    began = time.perf_counter()
    work(recognizer, stories)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="stories with comments")
    parser.add_argument("--recognizer", default="spacy")
    parser.add_argument("--stories", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of both, after one that is not")
    options = parser.parse_args()
    records = [record for _, record in read_records(options.file)]
    drawn = random.Random(0).sample(records, min(options.stories, len(records)))
    stories = [[record["story"], *(comment["text"] for comment in record["comments"])] for record in drawn]
    recognizer = make_recognizer(options.recognizer)
    ways = {"the recogniser alone": recognise, "anonymising": anonymise}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for i in range(options.rounds + 1):
        for name in list(ways)[:: 1 if i % 2 else -1]:
            taken = seconds(ways[name], recognizer, stories)
            if i > 0:
                found[name].append(taken)
    words = sum(len(text.split()) for texts in stories for text in texts)
    alone = found["the recogniser alone"]
    rows = [[name, f"{median(s):.2f}", f"{min(s):.2f}", f"{ratio(s, alone):.3f}"] for name, s in found.items()]
    print(f"{machine_line('spacy')}\n")
    print(f"{len(stories)} stories, {words} words; medians of {options.rounds} rounds, the ratio too:\n")
    print(markdown_table([options.recognizer, "seconds", "fastest", "time / recogniser's"], rows))


if __name__ == "__main__":
    main()
