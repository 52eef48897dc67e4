#!/bin/sh
# Environment and a volume from job.config.yaml.
set -eu

rm -rf configured shared
mkdir configured shared
echo "from outside" >shared/input
cat >configured/job.config.yaml <<YAML
# Project config #
project_name: 'my-atlas-project'
log_level: INFO

# Worker config #
num_gpus: 0
worker:
  image: us.gcr.io/atlas-ce/worker:latest

  volumes:
    $PWD/shared:
      bind: /my/container/path
      mode: rw

  environment:
    MY_ENV_VAR: MY_VALUE
YAML
cat >configured/main.py <<'PY'
import os

print("MY_ENV_VAR is", os.environ["MY_ENV_VAR"])
print(open("/my/container/path/input").read(), end="")
with open("/my/container/path/output", "w") as f:
    f.write("from inside\n")
PY
foundations submit --fail-on-job-error scheduler configured main.py
cat shared/output
