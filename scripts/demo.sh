#!/usr/bin/env bash
# The main job, offline: set up .venv, train a small model in two processes, score bundled stories with it and with carp-mini.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh" mini

export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
output="${1:-runs/demo}"
rm -rf "$output"
echo "training carp_nano from random weights on the bundled pairs, in two processes ..."
.venv/bin/torchrun --standalone --nproc_per_node 2 scripts/train.py --config carp_nano train.output="$output"
.venv/bin/carp score carp/sample/stories/drags.txt carp/sample/stories/chase.txt \
    --model "$output" --paraphrases bundled --plot "$output/scores.png"
echo "curves: $output/curves.png; model card: $output/README.md"
echo "A toy: it has read 362 pairs. See the README for training on pairs of your own."
echo
echo "carp-mini, the default model, on a story that is told and on one that is shown:"
.venv/bin/carp score carp/sample/stories/bare.txt carp/sample/stories/grief.txt \
    -r "Show, don't tell!" -r "Give me concrete details." -r "This is boring."
