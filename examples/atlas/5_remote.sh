#!/bin/sh
# A second scheduler with its own name. REMOTE is its address, for example http://gpu-box:5000.
set -eu

: "${REMOTE:?set REMOTE to the address of the other server, e.g. http://gpu-box:5000}"
home=${FOUNDATIONS_HOME:-$HOME/.foundations}
mkdir -p "$home/config/submission"
echo "scheduler_url: $REMOTE" >"$home/config/submission/remote.config.yaml"
foundations info --env

[ -d my_project ] || foundations init my_project
foundations submit remote my_project main.py
