/* cmd_python.c - berth python: where the Python modules are, and how an environment finds them */
#include "base/util.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "host/python_env.h"

static int python(struct cli *c UNUSED, const void *opts UNUSED, const struct operands *ops)
{
    const char *verb = ops->p[0];
    struct err e = {0};
    bool path = !strcmp(verb, "path");
    AUTO_FREE char *dir = path ? python_modules_dir(&e) : NULL;
    AUTO(buf) struct buf out = {0};
    int rc = path && !dir ? -1 : 0;

    if (path && ops->n > 1)
        rc = err_set(&e, ERR_INVALID, "berth python path takes no directory");
    else if (dir)
        buf_addf(&out, "%s\n", dir);
    else if (!strcmp(verb, "install"))
        rc = python_env_install(ops->n > 1 ? ops->p[1] : NULL, &out, &e);
    else if (!path)
        rc = err_set(&e, ERR_INVALID,
                     "berth python has no action '%.40s'; the actions are install and path", verb);
    cli_print(&out);
    return rc < 0 ? cli_fail(&e) : 0;
}

const struct command cmd_python = {
    BERTH_COMMAND(SECTION_HELP, "python", "install [DIR]\npath", python,
                  "make the Python modules known to an environment"),
    .description =
        "Jobs find the modules berth, ditk, foundations, hypernets, lighttuner and "
        "kubernetesdlprofile by themselves. For scripts that are started by hand, install writes "
        "berth.pth into the active virtual environment, or into the one in DIR. The file names the "
        "installed modules, so an upgrade of Berth upgrades them; remove the file to undo it. "
        "Packages of the same names that the environment has come first. path prints the directory "
        "of the modules, for PYTHONPATH.",
    .groups = OPTION_GROUPS(NULL),
    .examples =
        EXAMPLES({"berth python install", "into the active virtual environment"},
                 {"berth python install ~/venv", "into this one"},
                 {"PYTHONPATH=$(berth python path) python3 train.py", "without installing"}),
    OPERANDS("action", 1, 2, COMPLETE_CHOICES),
    .choices = "install|path",
};
