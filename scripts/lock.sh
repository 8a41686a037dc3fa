#!/bin/sh
# Writes the locked requirement files, with hashes, from their .in sources. base first: the others are bound to it.
set -eu

cd "$(dirname "$0")/../requirements"
for name in base embedded dev prod; do
    echo "locking $name"
    ../.venv/bin/python -m piptools compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-header \
        --no-emit-find-links --no-emit-index-url --no-emit-trusted-host "$name.in" -o "$name.txt"
done
