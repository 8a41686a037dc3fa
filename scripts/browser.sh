#!/bin/sh
# Runs the given command with CHROMIUM_PATH set. Debian as root: installs Chromium when it is missing. Without a browser
# the test is skipped and says so, except in continuous integration, where that is a failure.
# Usage: scripts/browser.sh COMMAND…
set -eu

find_browser() {
    for candidate in "${CHROMIUM_PATH:-}" chromium chromium-browser google-chrome-stable google-chrome; do
        if [ -n "$candidate" ] && command -v "$candidate" 2>/dev/null; then
            return
        fi
    done
}

browser=$(find_browser)
if [ -z "$browser" ] && [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing Chromium for the browser test …"
    log=$(mktemp)
    if DEBIAN_FRONTEND=noninteractive apt-get update -qq >"$log" 2>&1 &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >>"$log" 2>&1; then
        browser=$(find_browser)
    else
        tail -n 5 "$log" >&2
    fi
    rm -f "$log"
fi

if [ -n "$browser" ]; then
    echo "browser test with $browser"
    CHROMIUM_PATH=$browser exec "$@"
fi
if [ "${CI:-}" = true ]; then
    echo "error: the browser test needs Chromium, and there is none" >&2
    exit 1
fi
echo "SKIPPED the browser test: no Chromium found. Install it (Debian: apt-get install chromium) or set CHROMIUM_PATH,"
echo "then run: make e2e"
