#!/bin/sh
# Makes .venv hold what the locked files say; does nothing when it already does.
# Usage: scripts/python.sh run|dev
set -eu

kind=$1
run_files="requirements/base.txt requirements/embedded.txt requirements/embedded-model.txt"
dev_files="$run_files requirements/dev.txt"

fail() {
    echo "error: $1" >&2
    exit 2
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3 python}; do
        if is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed and was not found; install it, or name it: make PYTHON=/path/to/python3.11 …"
}

# shellcheck disable=SC2086
sum_of() {
    # The folder belongs in the sum: a virtual environment that was moved does not work.
    echo "$(cat $1 | cksum) $(pwd)"
}

files=$run_files
[ "$kind" = run ] || files=$dev_files
if [ -x .venv/bin/python ] && .venv/bin/python -c '' 2>/dev/null; then
    [ "$(cat ".venv/.installed-$kind" 2>/dev/null)" != "$(sum_of "$files")" ] || exit 0
fi

if ! { [ -x .venv/bin/python ] && is_new_enough .venv/bin/python && grep -qxF "$(pwd)" .venv/.made-in 2>/dev/null; }; then
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "this Python cannot make virtual environments; on Debian: apt-get install python3-venv"
    echo "creating .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv || fail ".venv could not be created; is the folder writable and the disk not full?"
    pwd > .venv/.made-in
fi

echo "installing Python packages (only when the locked list has changed) …"
rm -f .venv/.installed-*
arguments=
for file in $files; do
    arguments="$arguments -r $file"
done
# --no-deps: the files are complete, so there is nothing to resolve. -qq: errors only.
# shellcheck disable=SC2086
.venv/bin/python -m pip install -qq --disable-pip-version-check --no-input --no-deps --require-hashes $arguments ||
    fail "the Python packages could not be installed (see above); is the package index reachable?"
sum_of "$run_files" > .venv/.installed-run
[ "$kind" = run ] || sum_of "$dev_files" > .venv/.installed-dev
