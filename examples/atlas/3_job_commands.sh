#!/bin/sh
# Stopping, clearing the queue, deleting.
set -eu

rm -rf sleeper
mkdir sleeper
cat >sleeper/main.py <<'PY'
import time

print("working", flush=True)
time.sleep(600)
PY

submit() {
    foundations submit --stream-job-logs False scheduler sleeper main.py |
        sed -n "s/.*Job submitted with ID '\(.*\)'.*/\1/p"
}
running=$(submit)
submit >/dev/null # these two wait behind it
submit >/dev/null

until foundations get logs scheduler "$running" | grep -q working; do
    sleep 0.2
done
foundations clear-queue scheduler # of all projects; what runs goes on
foundations stop job scheduler "$running"
until foundations delete job scheduler "$running"; do
    sleep 0.2 # until the stopped job has ended
done
