"""The design's rules about imports."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "carp"
# From the top down; a module imports its own level or lower ones.
LEVELS = [
    {"cli", "web"},
    {"training", "scoring", "evaluation"},
    {"model", "loss", "data"},
    {"config", "constants", "reviews", "errors", "files", "versions", "distributed"},
]
# What may be imported at the top of a module by a base installation.
BASE = {"torch", "transformers", "accelerate", "datasets", "safetensors", "huggingface_hub", "tokenizers", "numpy"}
BASE |= {"filelock", "psutil", "pydantic", "yaml", "matplotlib", "typer", "rich", "tqdm", "pyarrow"}


def level(module: str) -> int:
    part = module.removeprefix("carp.").split(".")[0]
    return next(i for i, names in enumerate(LEVELS) if part in names)


def imports(path: Path, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    found = set()
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.parent != PACKAGE or p.stem != "__init__")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_module_imports_upward(path: Path) -> None:
    own = level("carp." + ".".join(path.relative_to(PACKAGE).with_suffix("").parts))
    for module in imports(path):
        if module.startswith("carp."):
            assert level(module) >= own, f"{path} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_a_base_installation_can_import_every_module(path: Path) -> None:
    import sys

    for module in imports(path, top_level_only=True):
        root = module.split(".")[0]
        assert root in BASE | {"carp"} | sys.stdlib_module_names, f"{path} imports {root} at its top"


def test_nothing_is_unpickled_and_no_remote_code_is_trusted() -> None:
    text = "\n".join(p.read_text() for p in PACKAGE.rglob("*.py"))
    assert "trust_remote_code" not in text
    assert re.findall(r"torch\.load\([^)]*\)", text) == re.findall(r"torch\.load\([^)]*weights_only=True\)", text)
    assert not re.search(r"\bpickle\.loads?\(", text)
