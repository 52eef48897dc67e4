/* spec_file.c - a file that describes jobs, in YAML or JSON */
#include "cli/spec_file.h"
#include "base/file.h"
#include "base/util.h"
#include "base/yaml.h"
#include <unistd.h>

enum { FILE_MAX_BYTES = 256 << 20 };

/* Everything that is not called .json is read as YAML, of which JSON is a part. */
int spec_file_read(const char *path, struct json **out, struct err *e)
{
    AUTO_FREE char *text = NULL;
    const char *dot = strrchr(path, '.');
    bool is_stdin = !strcmp(path, "-");
    size_t n;

    if (is_stdin ? fd_read_all(STDIN_FILENO, FILE_MAX_BYTES, &text, &n, e) < 0
                 : file_read_all(path, FILE_MAX_BYTES, &text, &n, e) < 0)
        return -1;
    struct str s = {text, n};
    const char *name = is_stdin ? "standard input" : path;
    if (dot && !strcmp(dot, ".json") ? json_parse(s, name, out, e) < 0
                                     : yaml_parse(s, name, out, e) < 0)
        return -1;
    if (json_type(*out) == JSON_ARRAY) { /* a plain list of jobs is the short form of `jobs:` */
        struct json *wrapped = json_new_object();
        json_set_take(wrapped, "jobs", *out);
        *out = wrapped;
    }
    if (json_type(*out) == JSON_OBJECT)
        return 0;
    err_set(e, ERR_INVALID, "%s does not describe a job: it is %s, not a map", name,
            json_type_name(json_type(*out)));
    json_free(*out);
    *out = NULL;
    return -1;
}
