"""Rubrics: what a judge is asked, scale by scale. YAML files; three are bundled."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from carp.errors import InputError

BUNDLED = ("stories", "news", "confederacy")
QUESTION = "[QUESTION]"
PLACEHOLDER = re.compile(r"\[([A-Z][A-Z_]*)\]")
TAKEN = ("story_id", "rater", "group")  # other columns of the ratings
Text = Annotated[str, Field(min_length=1)]


class Part(BaseModel):
    """Strict: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Scale(Part):
    """One Likert scale: its question, its lowest and highest point."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
    question: Text
    minimum: Annotated[int, Field(ge=0)]
    maximum: int

    @model_validator(mode="after")
    def _has_points(self) -> Scale:
        if self.maximum <= self.minimum:
            raise ValueError(f"scale {self.name}: maximum {self.maximum} must be above minimum {self.minimum}")
        if self.name in TAKEN:
            raise ValueError(f"scale {self.name}: the ratings have a column of that name already; rename the scale")
        return self


class Rubric(Part):
    """Scales and the words around their questions.

    Attributes:
        name: what outputs call it.
        source: where it is from.
        template: a query; ``[QUESTION]`` stands for the scale's question.
        fields: placeholders such as ``[STORY]`` and the field of a story that each stands for.
        persona: what ``--persona`` puts on a line before a query.
        explain: what ``--explain`` puts after a query.
        ignore: phrases with numbers that are no ratings.
        scales: the scales; their ``minimum`` and ``maximum`` may stand beside them, once for all.
    """

    name: Text
    source: str = ""
    template: str = QUESTION
    fields: dict[str, Text] = {"STORY": "story", "PROMPT": "prompt"}
    persona: Text | None = None
    explain: Text = "Please also explain your decision."
    ignore: list[Text] = []
    scales: Annotated[list[Scale], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _share_limits(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(values.get("scales"), list):
            return values
        values = dict(values)
        shared = {key: values.pop(key) for key in ("minimum", "maximum") if key in values}
        values["scales"] = [shared | scale if isinstance(scale, dict) else scale for scale in values["scales"]]
        return values

    @field_validator("template")
    @classmethod
    def _asks_once(cls, template: str) -> str:
        if template.count(QUESTION) != 1:
            raise ValueError(f"template: write {QUESTION} once, where the question of a scale belongs")
        return template

    @model_validator(mode="after")
    def _can_be_filled(self) -> Rubric:
        names = [scale.name for scale in self.scales]
        if len(set(names)) < len(names):
            raise ValueError(f"two scales of one name ({', '.join(names)}); rename one")
        for scale in self.scales:
            placeholders = set(PLACEHOLDER.findall(self.query(scale)))
            if unknown := sorted(placeholders - set(self.fields)):
                raise ValueError(f"scale {scale.name}: [{unknown[0]}] is not among 'fields'; name its field there")
            if "story" not in self.needs(scale):
                raise ValueError(f"scale {scale.name}: its query shows no story; write [STORY] where it belongs")
        return self

    def query(self, scale: Scale) -> str:
        """The query of a scale, its placeholders for texts not filled yet."""
        return self.template.replace(QUESTION, scale.question)

    def needs(self, scale: Scale) -> list[str]:
        """The fields of a story that the query of a scale shows."""
        return sorted({self.fields[name] for name in PLACEHOLDER.findall(self.query(scale))})

    def chosen(self, names: list[str]) -> list[Scale]:
        """The scales of the given names, in their order; all for none.

        Raises:
            InputError: for a name that the rubric does not have, or has been given twice.
        """
        known = {scale.name: scale for scale in self.scales}
        for name in names:
            if name not in known:
                raise InputError(f"--attributes {name}: the rubric {self.name} has {', '.join(known)}{_others(self)}")
            if names.count(name) > 1:
                raise InputError(f"--attributes: {name} is named twice; name it once")
        return [known[name] for name in names] or list(self.scales)


def load_rubric(name: str | Path) -> Rubric:
    """A bundled rubric by its name, or one of a YAML file.

    Raises:
        InputError: names the file, the key and the mend.
    """
    if str(name) in BUNDLED:
        text = (files("carp.evaluation.judging") / "rubrics" / f"{name}.yaml").read_text(encoding="utf-8")
    elif Path(name).is_file():
        text = _read(Path(name))
    else:
        raise InputError(f"--rubric {name}: no such file, and no bundled rubric; those are {', '.join(BUNDLED)}")
    try:
        return Rubric.model_validate(yaml.safe_load(text))
    except ValidationError as error:
        raise InputError(f"{name}: {_explain(error.errors()[0])}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{name}: not readable as YAML: {' '.join(str(error).split())}") from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not readable as UTF-8 text ({error})") from error


def _explain(problem: Any) -> str:
    if problem["type"] == "value_error":
        return str(problem["msg"]).removeprefix("Value error, ")
    key = ".".join(str(part) for part in problem["loc"]) or "the file"
    if problem["type"] == "missing":
        return f"{key} is missing"
    if problem["type"] == "extra_forbidden":
        model = Scale if problem["loc"][0] == "scales" else Rubric
        return f"unknown key {key}; known ones are {', '.join(model.model_fields)}"
    if problem["type"] == "model_type":
        return f"{key}: expected keys such as name and scales, not {problem['input']!r}"
    return f"{key}: {problem['msg']}, not {problem['input']!r}"


def _others(rubric: Rubric) -> str:
    other = [load_rubric(name) for name in BUNDLED if name != rubric.name]
    names = "; ".join(f"{o.name}: {', '.join(scale.name for scale in o.scales)}" for o in other)
    return f" (--rubric chooses among other scales; {names})"
