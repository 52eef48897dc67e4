#!/bin/sh
# A project from the template, one job, its log, its archive.
set -eu

rm -rf my_project
foundations init my_project
cd my_project

# Show the log while the job runs; the line "Job submitted" has the id.
foundations submit scheduler . main.py | tee ../submit.log
job=$(sed -n "s/.*Job submitted with ID '\(.*\)'.*/\1/p" ../submit.log)

# Show the log again, later; works from any directory.
foundations get logs scheduler "$job"

# Fetch the directory at the end of the job, even if the project has changed since.
echo "# changed since" >>main.py
cd ..
foundations get job scheduler "$job"
if grep -q "changed since" "$job/main.py"; then
    echo "the archive is not what ran" >&2
    exit 1
fi
ls "$job"
