"""The prompts of the language-model baselines, letter for letter (CARP, section 4.1 and appendix B).

What the paper leaves open, and what is done here:

- **Line breaks.** Its text prints passage and critique in paragraphs of their own in section 4.1 and in the first
  example of B.1, and on one line in the rest of B.1, where breaks must have been lost: nobody writes one template in
  two ways. So a blank line stands between passage and critique and between all parts. B.2 is taken as it is printed,
  with the choices on consecutive lines; the dashes before them are list marks of the page, as its answers ("B)") show.
- **"4 stories"** (B.2): the prompt shows two and asks about a third. Letter for letter means that it stays.
- **The end of a finetuning text** is one line break, then the end-of-text token, which other models than GPT-J spell
  in other ways.
- **Other reviews than the nine** (B.2): the two examples keep the nine, or their answers would be wrong; the question
  offers the reviews that are given.
- **What is scored with B.2**: section 4.1 scores each review's text, the examples end in the letter alone. Here it is
  both, ``B) This is a bit too short.``: the letter is how the prompt wants to be answered, and with the text behind it
  the score is that of a review per byte, as with the other two. The texts stand in the prompt, so that most of the
  difference between two reviews comes from the letters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from carp.errors import InputError
from carp.reviews import REVIEWS


@dataclass(frozen=True)
class Form:
    """How a model is asked.

    Attributes:
        introduction: what stands first; may be empty.
        examples: what may be left out where the context is short, the first one first.
        question: the story and the reviews to choose from, up to where the answer begins.
        answers: what the model would say for each review.
    """

    introduction: str
    examples: tuple[str, ...]
    question: Callable[[str, Sequence[str]], str]
    answers: Callable[[Sequence[str]], list[str]]

    def prompt(self, story: str, reviews: Sequence[str], examples: int) -> str:
        """The prompt with the last ``examples`` examples; the answer follows after a space."""
        shown = self.examples[len(self.examples) - examples :]
        return "\n\n".join(filter(None, [self.introduction, *shown, self.question(story.strip(), reviews)]))


def finetuning_text(critique: str) -> str:
    """What follows the finetuned form's prompt in training, up to the end-of-text token (section 4.1)."""
    return f" {critique.strip()}\n"


def _passage(story: str, reviews: Sequence[str]) -> str:
    return f"Passage: {story}\n\nCritique:"


def _reviews(reviews: Sequence[str]) -> list[str]:
    return list(reviews)


def _choices(reviews: Sequence[str]) -> list[str]:
    if len(reviews) > len(ascii_uppercase):
        raise InputError(
            f"multiple-choice has letters for {len(ascii_uppercase)} reviews, not {len(reviews)}; give fewer"
        )
    return [f"{letter}) {review}" for letter, review in zip(ascii_uppercase, reviews, strict=False)]


def _quiz(story: str, reviews: Sequence[str]) -> str:
    return "\n\n".join([f"Story: {story}", "Choices:", "\n".join(_choices(reviews)), "Answer:"])


def _second_question(story: str, reviews: Sequence[str]) -> str:
    return f"Question 2:\n\n{_quiz(story, reviews)}"


_RAIN = (
    "The rain was falling to the ground.\n\n"
    "John took his umbrella off of the coat rack and walked out to a new adventure."
)
_COOKIES = "Jane wanted to go to the store to get cookies. She loved oatmeal cookies."

FORMS = {
    "finetuned": Form("", (), _passage, _reviews),  # section 4.1
    "prompt": Form(  # B.1
        "Below is a set of stories and their critiques:",
        (
            "Passage: It was raining outside, so John got an umbrella out of the closet. He was off for an adventure."
            "\n\nCritique: Why does John want to go on an adventure, the transition is rather odd.",
            f"Passage: {_COOKIES}\n\nCritique: Show, don't tell!",
        ),
        _passage,
        _reviews,
    ),
    "multiple-choice": Form(  # B.2
        "You will be asked to read 4 stories and answer a set of questions about how you would classify the story. "
        "This first story is an example.",
        (f"{_quiz(_RAIN, REVIEWS)} B)", f"Question 1:\n\n{_quiz(_COOKIES, REVIEWS)} F)"),
        _second_question,
        _choices,
    ),
}
