/* python_env.c - where the Python modules are, and how an environment finds them
 *
 * Jobs find the modules by PYTHONPATH.  For everything else one .pth file in an environment names
 * the directory of the installed modules: no network, no pip, no copies that grow old.  Python
 * appends such directories, so packages that the environment has come first.
 */
#include "host/python_env.h"
#include "base/file.h"
#include "base/util.h"
#include "host/home.h"
#include <dirent.h>

char *python_modules_dir(struct err *e)
{
    AUTO_FREE char *found = home_python_path();
    char *whole = found ? realpath(found, NULL) : NULL;

    if (!whole)
        err_set(e, ERR_NOT_FOUND,
                "the Python modules are not installed beside this program (share/berth/python); "
                "set BERTH_PYTHON to their directory");
    return whole;
}

/* "berth, foundations and hypernets": a program may be built without some of them. */
static void add_modules(struct buf *b, const char *dir)
{
    static const char *const modules[] = {"berth",     "ditk",       "foundations",
                                          "hypernets", "lighttuner", "kubernetesdlprofile"};
    const char *has[ARRAY_SIZE(modules)];
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(modules); i++) {
        AUTO_FREE char *init = xasprintf("%s/%s/__init__.py", dir, modules[i]);
        if (access(init, R_OK) == 0)
            has[n++] = modules[i];
    }
    for (size_t i = 0; i < n; i++)
        buf_addf(b, "%s%s", i == 0 ? "" : i + 1 == n ? " and " : ", ", has[i]);
}

static int pth_write(const char *site, const char *dir, struct buf *report, struct err *e)
{
    AUTO_FREE char *path = path_join(site, "berth.pth"), *line = xasprintf("%s\n", dir);

    if (file_write_atomic(path, line, strlen(line), 0644, e) < 0)
        return err_wrap(e, "installing into %s", site);
    buf_addf(report, "%s: this environment can import ", path);
    add_modules(report, dir);
    buf_addc(report, '\n');
    return 0;
}

/* The number of site-packages below env/lib, each with its file; -1 after an error. */
static int install_into(const char *env, const char *dir, struct buf *report, struct err *e)
{
    AUTO_FREE char *lib = path_join(env, "lib");
    DIR *d = opendir(lib);
    int found = 0;

    for (const struct dirent *x; d && found >= 0 && (x = readdir(d));) {
        AUTO_FREE char *site = xasprintf("%s/%s/site-packages", lib, x->d_name);
        if (strncmp(x->d_name, "python3", 7) != 0 || access(site, F_OK) < 0)
            continue;
        found = pth_write(site, dir, report, e) < 0 ? -1 : found + 1;
    }
    if (d)
        closedir(d);
    return found;
}

static bool is_site(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return !strcmp(name, "site-packages") || !strcmp(name, "dist-packages");
}

static const char *active_env(void)
{
    const char *env = getenv("VIRTUAL_ENV");

    if (!env || !*env)
        env = getenv("CONDA_PREFIX");
    return env && *env ? env : NULL;
}

int python_env_install(const char *where, struct buf *report, struct err *e)
{
    const char *said = where ? where : active_env();
    AUTO_FREE char *dir = python_modules_dir(e);

    if (!dir)
        return -1;
    if (!said)
        return err_set(e, ERR_INVALID,
                       "no virtual environment is active; activate one, or name its directory: "
                       "berth python install DIR");
    AUTO_FREE char *env = realpath(said, NULL);
    if (!env)
        return err_sys(e, "cannot install into %s", said);
    if (is_site(env))
        return pth_write(env, dir, report, e);
    int found = install_into(env, dir, report, e);
    if (found == 0)
        return err_set(e, ERR_INVALID,
                       "%s is no virtual environment: it has no lib/python3*/site-packages; make "
                       "one with python3 -m venv",
                       env);
    return found < 0 ? -1 : 0;
}
