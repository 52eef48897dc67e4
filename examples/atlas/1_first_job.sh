#!/bin/sh
# A project from the template, one job, its log, its archive.
set -eu

rm -rf my_project
foundations init my_project
cd my_project

# The log of the job is shown as it comes; the id is in the line "Job submitted".
foundations submit scheduler . main.py | tee ../submit.log
job=$(sed -n "s/.*Job submitted with ID '\(.*\)'.*/\1/p" ../submit.log)

# Once more the log, later, from anywhere.
foundations get logs scheduler "$job"

# The directory as it was at the end of the job, whatever happened to it since.
echo "# changed since" >>main.py
cd ..
foundations get job scheduler "$job"
if grep -q "changed since" "$job/main.py"; then
    echo "the archive is not what ran" >&2
    exit 1
fi
ls "$job"
