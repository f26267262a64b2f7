#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image: Python, and the packages that
# marking needs and submissions may use (requirements.txt).
set -euo pipefail

base=${AUTOGRADER:-/autograder}
source=$base/source
export DEBIAN_FRONTEND=noninteractive

find_python() {
  for python in python3.13 python3.12 python3.11 python3; do
    if "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2> /dev/null
    then
      echo "$python"
      return
    fi
  done
}

python=$(find_python)
if [ -z "$python" ]; then
  apt-get update
  apt-get install --yes --no-install-recommends python3.11 python3.11-venv \
    || apt-get install --yes --no-install-recommends python3 python3-venv
  python=$(find_python)
fi
if [ -z "$python" ]; then
  echo "There is no Python 3.11 or newer here: choose a newer base image (Ubuntu 24.04)." >&2
  exit 1
fi

# Outside of source, which nobody but root may read once it holds the answers.
"$python" -m venv "$base/venv"
read -r -a pip_options < "$source/pip_options.txt" || true
"$base/venv/bin/python" -m pip install --no-cache-dir ${pip_options[@]+"${pip_options[@]}"} \
  --constraint "$source/constraints.txt" --requirement "$source/requirements.txt"

chmod -R go= "$source"
"$base/venv/bin/python" -c 'import numpy, pytest, torch; print("set up:", torch.__version__)'
