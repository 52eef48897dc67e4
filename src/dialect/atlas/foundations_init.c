/* foundations_init.c - foundations init: a directory that can be submitted as it is */
#include "base/file.h"
#include "base/util.h"
#include "dialect/atlas/foundations.h"
#include <errno.h>
#include <sys/stat.h>

static const char readme_txt[] =
    "A project for Atlas\n"
    "===================\n"
    "\n"
    "main.py          the job: logs parameters and metrics and keeps this file as an artifact\n"
    "job.config.yaml  project name, resources and worker of the jobs submitted from here\n"
    "data/            a place for input; everything in this directory travels with each job\n"
    "\n"
    "Start a server (once), run the job in its queue, look at it:\n"
    "\n"
    "    atlas-server start\n"
    "    foundations submit scheduler . main.py\n"
    "    foundations get logs scheduler <job_id>\n"
    "\n"
    "Or run it right here, tracked all the same:\n"
    "\n"
    "    python main.py\n";

static const char main_py[] =
    "import foundations\n"
    "\n"
    "# What this run is made with. With foundations.submit(params={...}) these come from outside:\n"
    "# params.update(foundations.load_parameters())\n"
    "params = {\"depth\": 3, \"epochs\": 5, \"batch_size\": 256, \"learning_rate\": 0.01}\n"
    "foundations.log_params(params)\n"
    "\n"
    "# A stand-in for training: the loss shrinks with every epoch.\n"
    "loss = 1.0\n"
    "for epoch in range(params[\"epochs\"]):\n"
    "    loss *= 1.0 - 10 * params[\"learning_rate\"] / params[\"depth\"]\n"
    "\n"
    "foundations.log_metric(\"accuracy\", round(1.0 - loss / 2, 4))\n"
    "foundations.log_metric(\"loss\", round(loss, 4))\n"
    "\n"
    "# Files worth keeping beside the numbers: models, plots, sound, text.\n"
    "foundations.save_artifact(\"README.txt\", key=\"Project_README\")\n";

static const char job_config_yaml[] =
    "# Project config #\n"
    "# project_name: my-project       # default: the name of this directory\n"
    "log_level: INFO                  # DEBUG, INFO, WARNING or ERROR: what the client prints\n"
    "\n"
    "# Job config #\n"
    "# params:                        # what foundations.load_parameters() gives\n"
    "#   learning_rate: 0.01\n"
    "# entrypoint: python             # started instead of the worker's own entrypoint\n"
    "\n"
    "# Worker config #\n"
    "# num_gpus: 0                    # GPUs to reserve\n"
    "# ram: 4                         # memory limit in GB; larger than 1048576: in bytes\n"
    "# worker:\n"
    "#   image: my-worker:latest      # an image of your own; default: the standard worker\n"
    "#   entrypoint: python\n"
    "#   command: [main.py]           # replaced by the words given to foundations submit\n"
    "#   args: [main.py]              # the same\n"
    "#   working_dir: /job/job_source\n"
    "#   volumes:\n"
    "#     /path/on/this/machine:\n"
    "#       bind: /path/in/the/worker\n"
    "#       mode: rw                 # or ro\n"
    "#   environment:\n"
    "#     MY_ENV_VAR: my value\n";

static const struct {
    const char *path;
    struct str text;
} files[] = {
    {"README.txt", {readme_txt, sizeof(readme_txt) - 1}},
    {"main.py", {main_py, sizeof(main_py) - 1}},
    {"job.config.yaml", {job_config_yaml, sizeof(job_config_yaml) - 1}},
    {"data/.keep", {"", 0}},
};

static int make_project(const char *name, struct err *e)
{
    AUTO_FREE char *data = path_join(name, "data");

    if (mkdir(data, 0777) < 0)
        return err_sys(e, "cannot create %s", data);
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        AUTO_FREE char *path = path_join(name, files[i].path);
        if (file_write_atomic(path, files[i].text.p, files[i].text.n, 0644, e) < 0)
            return -1;
    }
    return 0;
}

/* A directory that exists is never changed, and a project that fails half way is removed. */
int found_init(struct foundations *f, const struct found_opts *o)
{
    const char *name = o->ops.p[0];
    struct err e = {0}, ignored;

    if (mkdir(name, 0777) < 0) {
        if (errno == EEXIST)
            return found_say(f, "Error: project directory for `%s` already exists", name);
        err_sys(&e, "cannot create `%s`", name);
        return found_fail(f, &e);
    }
    if (make_project(name, &e) < 0) {
        (void)dir_remove_tree(name, &ignored);
        return found_fail(f, &e);
    }
    return found_say(f, "Success: New Foundations project `%s` created!", name);
}
