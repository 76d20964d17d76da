"""The checkpoint of carp-mini out of a finished run: some megabytes over the weights of all-MiniLM-L6-v2.

    python scripts/mini/export.py runs/mini/run --out checkpoints/carp-mini

Prints how near the embeddings of the compact checkpoint are to those of the run. The model card is `card.md`, with room
for the table of `measure.py`.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from torch.nn.functional import cosine_similarity

from carp.constants import COMPACT, MINILM
from carp.data.pairs import read_pairs
from carp.model.carp_model import CarpModel
from carp.model.compact import save_compact

COMPARED = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of the finished run")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    options = parser.parse_args()
    model = CarpModel.from_pretrained(options.run).eval()
    save_compact(model, MINILM, options.out)
    shutil.copyfile(Path(__file__).parent / "card.md", options.out / "README.md")
    for name in ("curves.png", "training.yaml"):
        shutil.copyfile(options.run / name, options.out / name)
    compact = CarpModel.from_pretrained(options.out).eval()
    passages = [pair.passage for pair in read_pairs("sample")][:COMPARED]
    near = cosine_similarity(model.encode_passages(passages), compact.encode_passages(passages))
    weights = options.out / COMPACT
    print(f"{weights}: {weights.stat().st_size / 1e6:.1f} MB")
    print(f"cosines to the run's own embeddings: {near.mean():.5f} on average, {near.min():.5f} at least")


if __name__ == "__main__":
    main()
