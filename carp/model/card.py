"""Model cards: what the Hub shows about a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from carp.model.carp_model import CarpModel

HEADER = """---
library_name: carp
pipeline_tag: sentence-similarity
tags:
- carp
- story-evaluation
- contrastive-learning
---
"""


def basic_card(model: CarpModel, body: str = "") -> str:
    """A card in Markdown: what the model is, how to use it, and ``body`` (e.g. how it was trained)."""
    config = model.config
    parameters = sum(p.numel() for p in model.parameters()) / 1e6
    return f"""{HEADER}
# A CARP model

Contrastive story-critique model after "Cut the CARP: Fishing for zero-shot story evaluation": a passage
encoder ({config.passage_config.model_type}, {config.passage_config.num_hidden_layers} layers) and a critique
encoder ({config.critique_config.model_type}, {config.critique_config.num_hidden_layers} layers),
{parameters:.1f} million parameters, embeddings of {config.embedding_dim} dimensions, pooling
`{config.pooling}`, contexts of {config.max_passage_tokens} and {config.max_critique_tokens} tokens.

## Use

```python
import carp

model = carp.load("path-or-hub-id")  # pip install carp-critic
print(carp.score("The story.", ["This kind of drags on.", "Show, don't tell!"], model=model))
```

A score is a cosine in [-1, 1]: how well a critique fits a passage, compared with other critiques. It is no
grade of quality. The model repeats the tastes and gaps of the critiques that it was trained on.
{body}"""
