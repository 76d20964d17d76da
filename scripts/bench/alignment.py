"""How often a comment is aligned with the place that it is about, where that is known because it quotes it.

    python scripts/bench/alignment.py ../shared/data/critiques.jsonl.gz

Comments on stories longer than a passage that quote one place are taken; what they quote is removed from them, and
each way of alignment has to find a passage that holds the quote. Chance is what a random window of the story reaches.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from itertools import islice

from workers import markdown_table

from carp.constants import MINILM, QUOTE_TOKEN
from carp.data.preparation.masking import mask_quotes
from carp.data.preparation.passages import closest_window, quoted_spans
from carp.data.preparation.story import Span, Story
from carp.data.preparation.token_ends import serialized_tokenizer, token_ends_of
from carp.data.records import read_records
from carp.model.encoders import load_tokenizer


def random_window(story: Story, comment: str) -> Span:
    return story.window(*random.Random(comment).choice(story.windows))


def tfidf_window(story: Story, comment: str) -> Span:
    """The window of the highest TF-IDF cosine, by scikit-learn, with the windows as documents."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    spans = [story.window(*window) for window in story.windows]
    vectors = TfidfVectorizer(sublinear_tf=True).fit_transform([story.text[a:b] for a, b in spans] + [comment])
    return spans[int((vectors[:-1] @ vectors[-1].T).toarray().argmax())]


WAYS: dict[str, Callable[[Story, str], Span]] = {
    "beginning": lambda story, comment: story.beginning(),
    "random window": random_window,
    "TF-IDF cosine of windows (scikit-learn)": tfidf_window,
    "closest_window": lambda story, comment: closest_window(story, comment) or story.beginning(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", help="raw stories with comments")
    parser.add_argument("--stories", type=int, default=400)
    options = parser.parse_args()
    token_ends = token_ends_of(serialized_tokenizer(load_tokenizer(MINILM)))
    hits, comments = dict.fromkeys(WAYS, 0), 0
    for _, record in islice(read_records(options.raw), options.stories):
        story = Story(record["story"], token_ends)
        for comment in [] if story.fits else record["comments"]:
            quotes = quoted_spans(story, comment["text"])
            if len(quotes) != 1:
                continue
            comments += 1
            left = mask_quotes(comment["text"], story.text, 2).text.replace(QUOTE_TOKEN, " ")
            for name, way in WAYS.items():
                span = way(story, left)
                hits[name] += span.start <= quotes[0].start and quotes[0].end <= span.end
    rows = [[name, f"{hits[name] / comments:.3f}"] for name in WAYS]
    print(f"{comments} comments\n\n{markdown_table(['way', 'found'], rows)}")


if __name__ == "__main__":
    main()
