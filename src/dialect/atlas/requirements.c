/* requirements.c - reads a requirements.txt and everything it names
 *
 * Owns: which lines are exact, and which bytes decide what pip would install.
 *
 * A line is exact when it is `name==version`; a file or directory of this machine is exact because
 * its contents are in the key.  Anything else (a range, a bare name, a URL, a version control
 * system, an index on this machine) depends on more than the key knows: `fixed` becomes false, and
 * pip has to say each time what it means today.
 */
#include "dialect/atlas/requirements.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/util.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { FILES_MAX = 200, FILE_MAX = 4 << 20, DEPTH_MAX = 64 };

void requirements_init(struct requirements *r)
{
    *r = (struct requirements){.fixed = true};
    sha256_init(&r->key);
    buf_addc(&r->names, '\n');
}

void requirements_done(struct requirements *r)
{
    buf_done(&r->names);
}

/* With lengths, so that no two lists of things give the same bytes. */
void requirements_add(struct requirements *r, const char *name, const void *p, size_t n)
{
    char head[64];

    snprintf(head, sizeof(head), "%zu %zu\n", strlen(name), n);
    sha256_add(&r->key, head, strlen(head));
    sha256_add(&r->key, name, strlen(name));
    sha256_add(&r->key, p, n);
}

void requirements_key(const struct requirements *r, char out[65])
{
    struct sha256 copy = r->key;
    uint8_t sum[32];

    sha256_end(&copy, sum);
    for (size_t i = 0; i < sizeof(sum); i++)
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

/* ---- files and directories of this machine ---- */

static int add_content(struct requirements *r, const char *name, const char *path)
{
    AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    char block[1 << 16];

    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    AUTO_FREE char *head = xasprintf("%s %o", name, (unsigned)(st.st_mode & 0111));
    requirements_add(r, "file", head, strlen(head));
    for (ssize_t n; (n = read(fd, block, sizeof(block))) != 0;) {
        if (n < 0)
            return -1;
        requirements_add(r, "bytes", block, (size_t)n);
    }
    return 0;
}

static int is_content(const struct dirent *d)
{
    return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
           strcmp(d->d_name, "__pycache__") != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* `name` is the path below the directory that was named, so equal directories elsewhere are equal.
 */
static int add_tree(struct requirements *r, const char *name, const char *path, int depth)
{
    struct dirent **list = NULL;
    int n = depth < DEPTH_MAX ? scandir(path, &list, is_content, by_name) : -1, rc = n < 0 ? -1 : 0;

    for (int i = 0; i < n; i++) {
        AUTO_FREE char *below = path_join(name, list[i]->d_name);
        AUTO_FREE char *full = path_join(path, list[i]->d_name);
        char target[4096];
        struct stat st;
        ssize_t len;

        if (rc == 0 && lstat(full, &st) < 0) {
            rc = -1;
        } else if (rc == 0 && S_ISDIR(st.st_mode)) {
            requirements_add(r, "directory", below, strlen(below));
            rc = add_tree(r, below, full, depth + 1);
        } else if (rc == 0 && S_ISLNK(st.st_mode)) {
            len = readlink(full, target, sizeof(target));
            requirements_add(r, "link", below, strlen(below));
            requirements_add(r, "to", target, len > 0 ? (size_t)len : 0);
        } else if (rc == 0 && S_ISREG(st.st_mode)) {
            rc = add_content(r, below, full);
        }
        free(list[i]);
    }
    free(list);
    return rc;
}

/* `path` may have extras behind it: ./pkg[test]. */
static void add_local(struct requirements *r, struct str path)
{
    AUTO_FREE char *text = xstrndup(path.p, path.n);
    char *extras = strrchr(text, '[');
    struct stat st;

    if (stat(text, &st) < 0 && extras)
        *extras = 0;
    r->local = true;
    if (stat(text, &st) < 0)
        r->fixed = false;
    else if (S_ISDIR(st.st_mode) ? add_tree(r, "", text, 0) < 0 : add_content(r, "", text) < 0)
        r->fixed = false;
}

/* ---- one requirement ---- */

static bool is_name_byte(char c)
{
    return isalnum((unsigned char)c) || strchr("._-", c);
}

/* name==version or name[extras]===version, and nothing else. */
static bool is_exact(struct str s, struct str *out_name)
{
    size_t i = 0;

    while (i < s.n && is_name_byte(s.p[i]))
        i++;
    size_t name = i;
    if (i < s.n && s.p[i] == '[')
        while (i < s.n && s.p[i++] != ']')
            ;
    struct str rest = str_trim((struct str){s.p + i, s.n - i});
    if (name == 0 || !str_starts(rest, STR("==")))
        return false;
    size_t skip = str_starts(rest, STR("===")) ? 3 : 2;
    struct str version = str_trim((struct str){rest.p + skip, rest.n - skip});
    for (size_t k = 0; k < version.n; k++)
        if (!isalnum((unsigned char)version.p[k]) && !strchr(".+!-_", version.p[k]))
            return false;
    *out_name = (struct str){s.p, name};
    return version.n > 0;
}

/* Adds the name as pip compares it. */
static void add_name(struct buf *b, struct str name)
{
    for (size_t i = 0; i < name.n; i++) {
        bool dash = strchr("._-", name.p[i]);
        if (!dash)
            buf_addc(b, (char)tolower((unsigned char)name.p[i]));
        else if (b->n == 0 || b->p[b->n - 1] != '-')
            buf_addc(b, '-');
    }
    buf_addc(b, '\n');
}

bool requirements_names(const struct requirements *r, struct str package)
{
    AUTO(buf) struct buf name = {0};

    buf_addc(&name, '\n');
    add_name(&name, package);
    return memmem(r->names.p, r->names.n, name.p, name.n) != NULL;
}

static bool str_has(struct str s, const char *what)
{
    return memmem(s.p, s.n, what, strlen(what)) != NULL;
}

static bool is_archive(struct str s)
{
    static const char *const ends[] = {".whl", ".tar.gz", ".zip", ".tgz", ".tar.bz2", ".tar.xz"};

    for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
        if (s.n > strlen(ends[i]) &&
            str_eq_c((struct str){s.p + s.n - strlen(ends[i]), strlen(ends[i])}, ends[i]))
            return true;
    return false;
}

static int hex_digit(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10
                                        : -1;
}

/* file:///some%20where/x.whl#sha256=… -> /some where/x.whl */
static void add_file_url(struct requirements *r, struct str url)
{
    AUTO(buf) struct buf path = {0};
    size_t i = 5;

    if (str_starts(url, STR("file://")))
        for (i = 7; i < url.n && url.p[i] != '/'; i++)
            ;
    for (; i < url.n && url.p[i] != '#' && url.p[i] != '?'; i++) {
        if (url.p[i] == '%' && i + 2 < url.n && hex_digit(url.p[i + 1]) >= 0 &&
            hex_digit(url.p[i + 2]) >= 0) {
            buf_addc(&path, (char)(hex_digit(url.p[i + 1]) * 16 + hex_digit(url.p[i + 2])));
            i += 2;
        } else {
            buf_addc(&path, url.p[i]);
        }
    }
    add_local(r, buf_str(&path));
}

/* A constraint need not be exact: the requirements it limits are. */
static void add_requirement(struct requirements *r, struct str s, bool constraint)
{
    const char *direct = memmem(s.p, s.n, " @ ", 3);
    struct str marker, name,
        at = direct ? (struct str){direct + 3, s.n - (size_t)(direct - s.p) - 3} : s;

    at = str_trim(at);
    if (str_starts(at, STR("file:"))) {
        add_file_url(r, str_trim(str_cut(at, ';', &marker)));
        return;
    }
    if (str_has(s, "://") || str_has(s, "@")) {
        r->fixed = false;
        return;
    }
    s = str_trim(str_cut(s, ';', &marker));
    if (memchr(s.p, '/', s.n) || str_starts(s, STR(".")) || is_archive(s))
        add_local(r, s);
    else if (!constraint && is_exact(s, &name))
        add_name(&r->names, name);
    else if (!constraint)
        r->fixed = false;
}

static bool is_web(struct str s)
{
    return str_starts(s, STR("http://")) || str_starts(s, STR("https://"));
}

/* Links and indexes of this machine change without a change of version. */
static void add_source(struct requirements *r, struct str where)
{
    if (!is_web(where)) {
        r->local = true;
        r->fixed = false;
    }
}

/* ---- lines ---- */

static void add_file(struct requirements *r, const char *path, bool constraint);

static void add_named_file(struct requirements *r, const char *by, struct str name, bool constraint)
{
    const char *slash = strrchr(by, '/');
    AUTO_FREE char *dir = slash ? xstrndup(by, (size_t)(slash - by + 1)) : xstrdup("");
    AUTO_FREE char *path = name.n > 0 && name.p[0] == '/'
                               ? xstrndup(name.p, name.n)
                               : xasprintf("%s" STR_FMT, dir, STR_ARG(name));

    if (str_has(name, "://"))
        r->fixed = false;
    else
        add_file(r, path, constraint);
}

static void add_editable(struct requirements *r, struct str s)
{
    if (str_has(s, "://") && !str_starts(s, STR("file:")))
        r->fixed = false;
    else
        r->editable = r->local = true;
}

struct line_option {
    char letter;
    const char *name;
    enum { LINE_FILE, LINE_LIMIT, LINE_EDITABLE, LINE_SOURCE, LINE_OTHER, LINE_FLAG } kind;
};
static const struct line_option line_options[] = {
    {'r', "--requirement", LINE_FILE},
    {'c', "--constraint", LINE_LIMIT},
    {'e', "--editable", LINE_EDITABLE},
    {'f', "--find-links", LINE_SOURCE},
    {'i', "--index-url", LINE_SOURCE},
    {0, "--pypi-url", LINE_SOURCE},
    {0, "--extra-index-url", LINE_SOURCE},
    {0, "--no-index", LINE_FLAG},
    {0, "--pre", LINE_FLAG},
    {0, "--prefer-binary", LINE_FLAG},
    {0, "--require-hashes", LINE_FLAG},
    {0, "--no-binary", LINE_OTHER},
    {0, "--only-binary", LINE_OTHER},
    {0, "--trusted-host", LINE_OTHER},
    {0, "--use-feature", LINE_OTHER},
    {0, "--hash", LINE_OTHER},
    {0, "--config-settings", LINE_OTHER},
    {'C', "--config-setting", LINE_OTHER},
    {0, "--global-option", LINE_OTHER},
    {0, "--install-option", LINE_OTHER},
};

static const struct line_option *find_line_option(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(line_options); i++)
        if (str_eq_c(name, line_options[i].name) ||
            (line_options[i].letter && name.n == 2 && name.p[1] == line_options[i].letter))
            return &line_options[i];
    return NULL;
}

/* One word as a shell would cut it off; *rest is what follows.  b holds its bytes. */
static struct str cut_word(struct str s, struct buf *b, struct str *rest)
{
    char quote = 0;
    size_t i = 0;

    buf_reset(b);
    for (s = str_trim(s); i < s.n && (quote || !isspace((unsigned char)s.p[i])); i++) {
        if (quote ? s.p[i] == quote : s.p[i] == '"' || s.p[i] == '\'')
            quote = quote ? 0 : s.p[i];
        else
            buf_addc(b, s.p[i]);
    }
    *rest = (struct str){s.p + i, s.n - i};
    return buf_str(b);
}

static void add_options(struct requirements *r, const char *by, struct str s)
{
    AUTO(buf) struct buf word = {0}, next = {0};

    while ((s = str_trim(s)).n > 0) {
        struct str value = {0}, name = cut_word(s, &word, &s);
        const struct line_option *o;
        if (str_starts(name, STR("--"))) {
            name = str_cut(name, '=', &value);
        } else if (name.n > 2) {
            value = str_strip((struct str){name.p + 2, name.n - 2}, "=");
            name.n = 2;
        }
        if (!(o = find_line_option(name))) { /* an abbreviation, or of a later pip */
            r->fixed = false;
            continue;
        }
        if (o->kind == LINE_FLAG)
            continue;
        if (value.n == 0)
            value = cut_word(s, &next, &s);
        if (o->kind == LINE_FILE || o->kind == LINE_LIMIT)
            add_named_file(r, by, value, o->kind == LINE_LIMIT);
        else if (o->kind == LINE_EDITABLE)
            add_editable(r, value);
        else if (o->kind == LINE_SOURCE)
            add_source(r, value);
    }
}

/* ${NAME} as pip replaces it: capitals, digits and underscores; unset ones stay. */
static void expand(struct str s, struct buf *out)
{
    for (size_t i = 0; i < s.n; i++) {
        size_t end = i + 2;
        while (s.p[i] == '$' && end < s.n &&
               (isupper((unsigned char)s.p[end]) || isdigit((unsigned char)s.p[end]) ||
                s.p[end] == '_'))
            end++;
        bool is_name = s.p[i] == '$' && i + 1 < s.n && s.p[i + 1] == '{' && end > i + 2 &&
                       end < s.n && s.p[end] == '}';
        AUTO_FREE char *name = is_name ? xstrndup(s.p + i + 2, end - i - 2) : NULL;
        const char *value = name ? getenv(name) : NULL;
        if (value) {
            buf_adds(out, value);
            i = end;
        } else {
            buf_addc(out, s.p[i]);
        }
    }
}

/* The requirement ends where an option begins. */
static void add_line(struct requirements *r, const char *by, struct str raw, bool constraint)
{
    AUTO(buf) struct buf text = {0};
    size_t end = 0;

    for (size_t i = 0; i < raw.n; i++)
        if (raw.p[i] == '#' && (i == 0 || isspace((unsigned char)raw.p[i - 1])))
            raw.n = i;
    expand(raw, &text);
    struct str s = str_trim(buf_str(&text));
    if (!str_eq(s, str_trim(raw)))
        requirements_add(r, "expanded", s.p, s.n);
    while (end < s.n && !(s.p[end] == '-' && (end == 0 || isspace((unsigned char)s.p[end - 1]))))
        end++;
    struct str requirement = str_trim((struct str){s.p, end});
    if (requirement.n > 0)
        add_requirement(r, requirement, constraint);
    add_options(r, by, (struct str){s.p + end, s.n - end});
}

static void add_lines(struct requirements *r, const char *by, struct str text, bool constraint)
{
    AUTO(buf) struct buf line = {0};

    while (text.n > 0) {
        struct str one = str_cut(text, '\n', &text);
        if (one.n > 0 && one.p[one.n - 1] == '\r')
            one.n--;
        bool goes_on = one.n > 0 && one.p[one.n - 1] == '\\' && str_trim(one).p[0] != '#';
        buf_add(&line, one.p, goes_on ? one.n - 1 : one.n);
        if (goes_on && text.n > 0)
            continue;
        add_line(r, by, buf_str(&line), constraint);
        buf_reset(&line);
    }
}

static void add_file(struct requirements *r, const char *path, bool constraint)
{
    AUTO_FREE char *text = NULL;
    struct err e;
    size_t n;

    if (r->files++ >= FILES_MAX || file_read_all(path, FILE_MAX, &text, &n, &e) < 0) {
        r->fixed = false;
        return;
    }
    requirements_add(r, constraint ? "constraints" : "requirements", text, n);
    struct str s = {text, n};
    if (str_starts(s, STR("\xef\xbb\xbf")))
        s = (struct str){s.p + 3, s.n - 3};
    if (memchr(text, 0, n)) /* two bytes per character: left to pip */
        r->fixed = false;
    else
        add_lines(r, path, s, constraint);
}

void requirements_read(struct requirements *r, const char *path)
{
    add_file(r, path, false);
}

/* ---- settings of pip ---- */

/* Settings that name files: what they say is read as a line of a requirements file would be. */
static void add_variable(struct requirements *r, const char *text)
{
    struct str value, name = str_cut(str_of(text), '=', &value);
    bool limit = str_eq_c(name, "PIP_CONSTRAINT"), file = str_eq_c(name, "PIP_REQUIREMENT");

    requirements_add(r, "variable", text, strlen(text));
    if (value.n == 0)
        return;
    if (str_eq_c(name, "PIP_FIND_LINKS") || str_eq_c(name, "PIP_INDEX_URL") ||
        str_eq_c(name, "PIP_EXTRA_INDEX_URL"))
        add_source(r, value);
    while ((limit || file) && (value = str_trim(value)).n > 0) {
        struct str one = str_cut(value, ' ', &value);
        add_named_file(r, "", one, limit);
    }
}

/* A configuration file that names other files is more than this reader follows. */
void requirements_add_configuration(struct requirements *r, const char *path)
{
    static const char *const names[] = {"constraint", "requirement", "find-links",
                                        "file:", "editable"};
    AUTO_FREE char *text = NULL;
    struct err e;
    size_t n;

    if (file_read_all(path, FILE_MAX, &text, &n, &e) < 0)
        return;
    requirements_add(r, "configuration", text, n);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strstr(text, names[i])) {
            r->fixed = false;
            r->local = true;
        }
}

static void add_configuration_below(struct requirements *r, struct str dir, const char *name)
{
    AUTO_FREE char *top = xstrndup(dir.n > 0 ? dir.p : "/", MAX(dir.n, 1));
    AUTO_FREE char *path = path_join(top, name);

    requirements_add_configuration(r, path);
}

void requirements_add_settings(struct requirements *r, char *const *environment)
{
    const char *home = getenv("HOME"), *config = getenv("XDG_CONFIG_HOME"),
               *all = getenv("XDG_CONFIG_DIRS"), *own = getenv("PIP_CONFIG_FILE");

    for (size_t i = 0; environment[i]; i++)
        if (!strncmp(environment[i], "PIP_", 4))
            add_variable(r, environment[i]);
    if (own && !strcmp(own, "/dev/null")) /* pip then reads none */
        return;
    requirements_add_configuration(r, "/etc/pip.conf");
    for (struct str rest = str_of(all && *all ? all : "/etc/xdg"); rest.n > 0;)
        add_configuration_below(r, str_cut(rest, ':', &rest), "pip/pip.conf");
    add_configuration_below(r, str_of(home), ".pip/pip.conf");
    if (config && *config)
        add_configuration_below(r, str_of(config), "pip/pip.conf");
    else
        add_configuration_below(r, str_of(home), ".config/pip/pip.conf");
    if (own)
        requirements_add_configuration(r, own);
}
