#!/usr/bin/env bash
# Set up .venv with the development extras and run all tests; more arguments go to pytest, e.g.  -m slow
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh" dev
.venv/bin/python -m pytest "$@"
