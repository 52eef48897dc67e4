#!/bin/sh
# Draws the pictures of the README again, from what the built program prints.
set -eu
cd "$(dirname "$0")/../.."
home=$(mktemp -d)
daemon=
# shellcheck disable=SC2317 # called by the trap
finish() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    rm -rf "$home" /tmp/demo
}
trap finish EXIT
export BERTH_HOME="$home/berth"
PATH=$PWD/build/src/cli:$PATH
img=$PWD/docs/img
cp -r examples/quickstart /tmp/demo # the place shows in the pictures
cd /tmp/demo

draw() { # file title options…
    file=$1 title=$2
    shift 2
    /usr/bin/python3 "$img/render_term.py" --title "$title" "$@" >"$img/$file.new"
    mv "$img/$file.new" "$img/$file"
}

draw run.svg "berth run" --run 'berth run sweep.yaml'
berth serve >/dev/null 2>&1 &
daemon=$!
until berth nodes --no-start >/dev/null 2>&1; do sleep 0.05; done
berth submit --name evaluate --cpus 1 --project demo -- sleep 30 >/dev/null
berth submit --name broken --project demo -- python3 -c 'raise SystemExit(3)' >/dev/null
berth submit --name huge --cpus 64 --project demo -- true >/dev/null
sleep 1
draw ls.svg "berth ls, berth explain, berth show" --run "berth ls -n 6 --sort -id" --run 'berth explain 11' --run 'berth show 6'
berth submit -f sweep.yaml --param 'degree=[3,5,7,9]' --param epochs=40 >/dev/null
sleep 4
draw top.svg "berth top" --run 'berth top' --height 24 --stop-after 3
berth cancel --all --yes >/dev/null 2>&1 || true
