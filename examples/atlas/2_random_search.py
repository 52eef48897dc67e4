#!/usr/bin/env python3
"""Five jobs with parameters drawn at random; they run one after another, this script does not wait."""
import os

os.environ["FOUNDATIONS_COMMAND_LINE"] = "True"  # this script submits jobs and is none itself

import foundations  # noqa: E402

param_ranges = {
    "epochs": {"min": 5, "max": 40},
    "layer_shapes": {"min": 256, "max": 768, "count_min": 1, "count_max": 3},
    "early_stopping_tolerance": 0.01,
    "batch_size": [64, 128, 1024],
}
here = os.path.dirname(os.path.abspath(__file__))

jobs = []
for _ in range(5):
    params = foundations.parameters.sample(param_ranges)
    jobs.append(
        foundations.submit(
            scheduler_config="scheduler", job_directory=os.path.join(here, "search"), command=["main.py"], params=params
        )
    )

if os.environ.get("WAIT"):  # what one would do in a notebook
    for job in jobs:
        job.wait_for_deployment_to_complete(wait_seconds=1, log_output=False)
    for row in foundations.get_metrics_for_all_jobs("random-search", as_dicts=True):
        print(row["job_id"], row["status"], "epochs", row.get("epochs"), "accuracy", row.get("accuracy"))
