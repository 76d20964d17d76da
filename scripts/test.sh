#!/usr/bin/env bash
# Set up .venv with the development extras and run all tests; more arguments go to pytest, e.g.  -m slow
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh" dev
# A process for each core: the tests' models are too small for a second thread.
.venv/bin/python -m pytest -n logical --maxprocesses 8 --dist loadfile "$@"
