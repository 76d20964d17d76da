"""YAML files in which users define something: read, checked, and explained where they are at fault."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from carp.errors import InputError
from carp.scoring.stories import read_text

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Definition(BaseModel):
    """Strict: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def no_repeats(texts: Sequence[str]) -> Sequence[str]:
    """The same texts; a ValueError where one comes twice, as it would count twice."""
    if twice := repeated(texts):
        raise ValueError(f"{twice!r} comes twice; leave one out")
    return texts


def repeated(texts: Iterable[str]) -> str:
    """The first text that comes a second time; empty where none does."""
    seen: set[str] = set()
    for text in texts:
        if text in seen:
            return text
        seen.add(text)
    return ""


Critiques = Annotated[list[Text], Field(min_length=1), AfterValidator(no_repeats)]
Kind = TypeVar("Kind", bound=Definition)


def load_definition(kind: type[Kind], name: str, option: str, package: str, folder: str) -> Kind:
    """A bundled definition by its name, or one of a YAML file.

    Args:
        kind: what is defined.
        name: of a bundled definition, or a path.
        option: of the command line, for messages.
        package, folder: where the bundled ones lie.

    Raises:
        InputError: names the file, the key and the mend.
    """
    bundled = {file.name.removesuffix(".yaml"): file for file in (files(package) / folder).iterdir()}
    if name in bundled:
        text = bundled[name].read_text(encoding="utf-8")
    elif Path(name).is_file():
        text = read_text(name, "a definition")
    else:
        known = ", ".join(sorted(bundled))
        raise InputError(f"{option} {name}: no such file, and no bundled definition; those are {known}")
    try:
        return kind.model_validate(yaml.load(text, Loader=_Loader))
    except ValidationError as error:
        raise InputError(f"{name}: {_explain(error.errors()[0], kind)}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date that does not exist
        raise InputError(f"{name}: not readable as YAML: {' '.join(str(error).split())}") from error


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        # YAML itself would silently take the last one.
        if twice := repeated(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            raise yaml.constructor.ConstructorError(None, None, f"the key {twice!r} comes twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _explain(problem: Any, kind: type[Definition]) -> str:
    key = ".".join(str(part) for part in problem["loc"]) or "the file"
    if problem["type"] == "value_error":
        said = str(problem["msg"]).removeprefix("Value error, ")
        return f"{key}: {said}" if problem["loc"] else said
    if problem["type"] == "missing":
        return f"{key} is missing"
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key}; known ones are {', '.join(kind.model_fields)}"
    hint = ' (in YAML a text with brackets needs quotes: "[quote]")' if problem["type"] == "string_type" else ""
    return f"{key}: {problem['msg']}, not {problem['input']!r}{hint}"
