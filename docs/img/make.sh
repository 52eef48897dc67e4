#!/bin/sh
# Draws the pictures of the README again, from what the built program prints.
set -eu
cd "$(dirname "$0")/../.."
home=$(mktemp -d)
trap 'PATH=$PWD/build/src/cli:$PATH; kill "$daemon" 2>/dev/null || true; rm -rf "$home"' EXIT
export BERTH_HOME="$home/berth"
PATH=$PWD/build/src/cli:$PATH
draw() { # file title width command…
    file=$1 title=$2 width=$3
    shift 3
    for c in "$@"; do
        set -- "$@" --run "$c"
        shift
    done
    /usr/bin/python3 docs/img/render_term.py --width "$width" --title "$title" "$@" >"docs/img/$file.new"
    mv "docs/img/$file.new" "docs/img/$file"
}
daemon=
draw run.svg "berth run" 100 'berth run examples/quickstart/sweep.yaml'
berth serve >/dev/null 2>&1 &
daemon=$!
while ! curl -sf --unix-socket "$BERTH_HOME/sock" http://localhost/healthz >/dev/null; do sleep 0.05; done
berth submit --name evaluate --cpus 1 --project demo -- sleep 30 >/dev/null
berth submit --name broken --project demo -- python3 -c 'raise SystemExit(3)' >/dev/null
berth submit --name huge --cpus 64 --project demo -- true >/dev/null
sleep 1
draw ls.svg "berth ls, berth explain" 100 "berth ls -n 8 --sort -id" 'berth explain 11'
