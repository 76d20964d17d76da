"""What an evaluator of reviews says of the items of a rubric: reviews that praise a story for an item, or blame it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from carp.evaluation.definitions import Critiques, Definition, Text, load_definition, repeated
from carp.evaluation.evaluators import Floats

PACKAGE, FOLDER = "carp.evaluation.correlating", "rubrics"
PRAISE, BLAME = "praise", "blame"


class Items(Definition):
    """Items, called as the columns of the ratings, and the reviews of each.

    Attributes:
        name: what outputs call it.
        source: where it is from.
        items: item -> reviews of ``praise``, of ``blame``, or of both.
    """

    name: Text
    source: str = ""
    items: Annotated[dict[Text, dict[Literal["praise", "blame"], Critiques]], Field(min_length=1)]

    @model_validator(mode="after")
    def _says_something_of_each(self) -> Items:
        for item, sides in self.items.items():
            if not sides:
                raise ValueError(f"items.{item}: has no reviews; write some under praise, blame or both")
            if twice := repeated(review for reviews in sides.values() for review in reviews):
                raise ValueError(f"items.{item}: {twice!r} is praise and blame; leave it to one")
        return self

    @property
    def reviews(self) -> list[str]:
        """All reviews, each once."""
        every = (review for sides in self.items.values() for reviews in sides.values() for review in reviews)
        return list(dict.fromkeys(every))

    def scores(self, found: Floats, reviews: Sequence[str]) -> dict[str, Floats]:
        """Mean score of the praise minus mean score of the blame: item -> [n_stories].

        Args:
            found: [n_stories, n_reviews].
            reviews: [n_reviews], all of them.
        """
        place = {review: column for column, review in enumerate(reviews)}
        signs = {PRAISE: 1.0, BLAME: -1.0}
        return {
            item: np.sum(
                [signs[side] * found[:, [place[r] for r in of_side]].mean(1) for side, of_side in sides.items()], 0
            )
            for item, sides in self.items.items()
        }


def load_items(name: str) -> Items:
    """The reviews of a rubric's items, bundled ones by name or out of a YAML file.

    Raises:
        InputError: names the file, the key and the mend.
    """
    return load_definition(Items, name, "--reviews-of-items", PACKAGE, FOLDER)
