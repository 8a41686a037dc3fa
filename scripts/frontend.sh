#!/bin/sh
# Installs the front end's packages and builds it; does nothing when its sources have not changed.
# Usage: scripts/frontend.sh deps|build
set -eu

deps_stamp=frontend/node_modules/.installed
build_stamp=frontend/node_modules/.built

fail() {
    echo "error: $1" >&2
    exit 2
}

# Runs a command silently; its output is shown when it fails.
quietly() {
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        rm -f "$log"
    else
        cat "$log" >&2
        rm -f "$log"
        return 1
    fi
}

command -v node >/dev/null 2>&1 ||
    fail "Node 20.19 or newer is needed to build the front end and was not found; get it from your system or nodejs.org"
command -v npm >/dev/null 2>&1 || fail "npm is needed to build the front end and was not found; it usually comes with Node"
node -e 'const [major, minor] = process.versions.node.split(".").map(Number);
    process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' ||
    fail "Node 20.19 or newer is needed to build the front end; this is $(node --version)"

wanted=$(cat frontend/package.json frontend/package-lock.json | cksum)" $(node --version)"
if [ "$(cat "$deps_stamp" 2>/dev/null)" != "$wanted" ]; then
    echo "installing front-end packages (only when the locked list has changed) …"
    quietly npm --prefix frontend ci --ignore-scripts --no-audit --no-fund --loglevel=error ||
        fail "the front-end packages could not be installed (see above); is the package registry reachable?"
    echo "$wanted" > "$deps_stamp"
fi
[ "$1" = build ] || exit 0

# Names and contents of all sources, in a fixed order.
wanted=$(find frontend \( -name node_modules -o -name dist -o -name coverage -o -name e2e \) -prune -o -type f -print |
    LC_ALL=C sort | while IFS= read -r file; do
    cksum "$file"
done | cksum)
if [ "$(cat "$build_stamp" 2>/dev/null)" != "$wanted" ] || [ ! -f frontend/dist/index.html ]; then
    echo "building the front end (only when its sources have changed) …"
    rm -f "$build_stamp"
    quietly npm --prefix frontend run --silent build || fail "the front end could not be built (see above)"
    echo "$wanted" > "$build_stamp"
fi
