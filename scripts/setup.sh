# Sourced by the other scripts: a virtual environment in .venv with carp and the extras named in $1.
# The interpreter can be chosen by PYTHON=python3.12.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
extras="${1:-}"
stamp=".venv/.installed-${extras:-base}-$(cat pyproject.toml scripts/constraints.txt | sha256sum | cut -c1-16)"
if [ ! -e "$stamp" ]; then
    echo "setting up .venv (${extras:-base}) ..."
    [ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv
    # torch first and alone: its pin decides between the CPU build and gigabytes of CUDA packages.
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c scripts/constraints.txt torch
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c scripts/constraints.txt -e ".${extras:+[$extras]}"
    touch "$stamp"
fi
