"""What set_project_name() and set_job_resources() were told, for this process."""

project_name = None
num_gpus = None
ram = None
