"""Classifiers by name: classes, and the critiques that stand for each. YAML files; four are bundled."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from carp.errors import InputError
from carp.evaluation.definitions import Critiques, Definition, Text, load_definition, repeated

PACKAGE, FOLDER = "carp.evaluation.classifying", "classifiers"


class Classifier(Definition):
    """Classes of passages.

    Attributes:
        name: what outputs call it.
        source: where it is from.
        classes: name -> critiques that fit a passage of this class; of two classes, each is what the other is not.
    """

    name: Text
    source: str = ""
    classes: Annotated[dict[Text, Critiques], Field(min_length=1)]

    @model_validator(mode="after")
    def _tells_classes_apart(self) -> Classifier:
        if twice := repeated(self.critiques):
            raise ValueError(f"the critique {twice!r} stands for two classes; leave it to one")
        return self

    @property
    def critiques(self) -> list[str]:
        """All critiques, class by class."""
        return [critique for critiques in self.classes.values() for critique in critiques]


def load_classifiers(names: list[str]) -> list[Classifier]:
    """Classifiers, bundled ones by name or out of YAML files.

    Raises:
        InputError: names the file, the key and the mend.
    """
    found = [load_definition(Classifier, name, "--classifier", PACKAGE, FOLDER) for name in names]
    if not found:
        raise InputError("--classifier: name one, e.g. sentiment, or a YAML file")
    if twice := repeated(classifier.name for classifier in found):
        raise InputError(f"--classifier: two are called {twice!r}; leave one out, or change its 'name'")
    return found
