"""A probe as a folder: page, pictures, figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from carp.errors import InputError
from carp.evaluation.evaluators import Floats, origin
from carp.evaluation.probing.figures import draw_matrix, draw_rises
from carp.evaluation.probing.measuring import Probe, Probed, probe
from carp.evaluation.probing.page import page
from carp.evaluation.probing.passages import read_passages
from carp.evaluation.resampling import DEFAULT, Resampling
from carp.files import written_folder
from carp.scoring.loading import load
from carp.scoring.score import score
from carp.versions import versions


def write_probe(
    model: str,
    output: str | Path,
    passages: str = "sample",
    limit: int = 200,
    resampling: Resampling = DEFAULT,
    progress: bool = False,
) -> Probe:
    """Write ``README.md``, ``rises.png``, ``matrix.png`` and ``probe.json`` into a new folder.

    Args:
        model: folder or Hub id.
        output: the folder; must not exist.
        passages: pairs or raw stories, see :func:`~carp.data.pairs.read_pairs`; their critiques are not read.
        limit: passages at most.
        resampling: of groups of passages; its seed is that of the damage too.
        progress: show bars on stderr.

    Raises:
        InputError: names what cannot be used; nothing is written then.
    """
    target = Path(output)
    if target.exists() or target.is_symlink():
        raise InputError(f"--out {output}: exists already; name a new folder")
    drawn = read_passages(passages, limit, resampling.seed)
    loaded = load(model or None)

    def scored(texts: Sequence[str], reviews: Sequence[str]) -> Floats:
        return score(texts, reviews, model=loaded, progress=progress).astype(np.float64)

    found = probe(drawn, scored, resampling, resampling.seed)
    name = str(loaded.config._name_or_path)
    groups = int(drawn.group.max()) + 1
    made = {
        "model": {"name": name, "files": origin(f"carp:{name}")},
        "passages": {"source": passages, "passages": len(drawn.texts), "groups": groups},
        "options": {"limit": limit, **asdict(resampling)},
        "versions": versions(),
    }
    with written_folder(target) as draft:
        draw_rises(found.kinds, draft / "rises.png")
        draw_matrix(found.kinds, draft / "matrix.png")
        (draft / "README.md").write_text(page(found, made), encoding="utf-8")
        everything = {
            "made": made,
            "damage": [_record(kind) for kind in found.kinds],
            "invariances": [asdict(moved) for moved in found.invariances],
            "length": [asdict(shortened) for shortened in found.length],
        }
        text = json.dumps(everything, indent=2, ensure_ascii=False, allow_nan=False)
        (draft / "probe.json").write_text(text + "\n", encoding="utf-8")
    return found


def _record(found: Probed) -> dict[str, Any]:
    kind = {"name": found.kind.name, "title": found.kind.title, "held_out": found.kind.held_out}
    values = {name: getattr(found, name) for name in ("passages", "groups", "rises")}
    return {**kind, **values, "rise": asdict(found.rise), "won": asdict(found.won)}
