/* trouble.c - why a host cannot be used, in people's words
 *
 * ssh says what went wrong on stderr, and so does the shell on the other side.  The table below
 * knows their words (in the C locale); the first row that matches tells.  What it does not know is
 * given on as it was said: the last line that is not empty.
 */
#include "backend/ssh/ssh_priv.h"
#include "base/util.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

struct row {
    const char *also; /* must be said as well; NULL = nothing else */
    const char *words;
    bool lasting;
    const char *text; /* %W the host as given, %H its name alone, %P the port part */
};
#define CHANGED_KEY                                                                                \
    "the host key of %H has changed, perhaps by an attack; after a reinstallation remove the old " \
    "key with 'ssh-keygen -R'"

static const struct row rows[] = {
    {NULL, "HOST IDENTIFICATION HAS CHANGED", true, CHANGED_KEY},
    {NULL, "Host key for ", true, CHANGED_KEY},
    {NULL, "host key is known for", true,
     "the host key of %H is not known; connect once with ssh, or accept it with --accept-new"},
    {NULL, "Host key verification failed", true,
     "the host key of %H could not be checked; connect once with ssh to see why"},
    {"incorrect passphrase", "Permission denied", true,
     "the passphrase for the key of %W is wrong"},
    {NULL, "Permission denied (", true, NULL},
    {NULL, "Too many authentication failures", true,
     "%W refused all keys; name the right one with --identity"},
    {NULL, "Could not resolve hostname", false, "the name %H is not known; is it spelled right?"},
    {NULL, "Connection refused", false, "%H refuses connections%P; is sshd running there?"},
    {NULL, "Connection timed out", false, "%H does not answer%P (time-out)"},
    {NULL, "Operation timed out", false, "%H does not answer%P (time-out)"},
    {NULL, "timed out", false, "%H does not answer%P (time-out)"},
    {NULL, "No route to host", false, "there is no route to %H"},
    {NULL, "Network is unreachable", false, "the network of %H cannot be reached"},
    {"BERTH-FAR FAILED", "No space left", true, "%W has no space left in ~/.cache/berth"},
    {"BERTH-FAR FAILED", "quota exceeded", true,
     "the disk quota of %W is used up in ~/.cache/berth"},
    {"BERTH-FAR FAILED", "Read-only file system", true,
     "the home directory of %W is read-only; ~/.cache/berth must be writable"},
    {"BERTH-FAR FAILED hash", "BERTH-FAR FAILED hash", false,
     "the program for %W arrived damaged; Berth sends it again"},
    {"BERTH-FAR FAILED check", "GLIBC_", true,
     "the C library of %W is older than the one this berth was built with; build berth there"},
    {"BERTH-FAR FAILED check 126", "Permission denied", true,
     "programs in ~/.cache/berth of %W may not be executed; is it mounted noexec?"},
    {"BERTH-FAR FAILED check 127", "not found", true,
     "%W has no GNU C library (another libc, such as musl?), which this berth needs there"},
    {"BERTH-FAR FAILED check 126", "", true,
     "the program for %W cannot be executed there; is it of another architecture?"},
    {"BERTH-FAR FAILED", "Permission denied", true,
     "~/.cache/berth of %W cannot be written: permission denied"},
    {"berth-far:", "Read-only file system", true,
     "the home directory of %W is read-only; ~/.local/share/berth must be writable"},
    {"berth-far:", "Permission denied", true,
     "~/.local/share/berth of %W cannot be written: permission denied"},
    {"berth-far:", "No space left", true, "%W has no space left in ~/.local/share/berth"},
    {NULL, "sh: not found", true, "%W has no sh to log in to"},
    {NULL, "sftp connections only", true, "%W allows this user sftp only; Berth needs a shell"},
};

/* An unknown letter, or a port that was not given, adds nothing. */
static void put_word(struct buf *b, char which, const struct ssh_conf *c)
{
    if (which == 'H')
        buf_adds(b, c->host);
    else if (which == 'P' && c->port)
        buf_addf(b, " on port %lld", (long long)c->port);
    if (which == 'W') {
        AUTO_FREE char *where = ssh_conf_where(c);
        buf_adds(b, where);
    }
}

static void trouble_fill(struct trouble *out, const char *text, const struct ssh_conf *c)
{
    struct buf b;

    buf_init(&b, 4096);
    for (const char *p = text; *p; p++) {
        if (*p == '%' && p[1])
            put_word(&b, *++p, c);
        else
            buf_addc(&b, *p);
    }
    snprintf(out->text, sizeof(out->text), STR_FMT, STR_ARG(buf_str(&b)));
    buf_done(&b);
}

/* "Permission denied (publickey,password)." */
static void denied(const struct ssh_conf *c, struct trouble *out)
{
    if (c->password)
        trouble_fill(out, "%W refused the login: is the password wrong?", c);
    else if (c->identity)
        trouble_fill(out, "%W refused the login with the given key", c);
    else
        trouble_fill(out,
                     "%W refused the login; give the node a key (--identity), or load one into the "
                     "ssh agent",
                     c);
}

/* Points into `said`; empty when nothing was said that tells. */
static struct str last_line(struct str said)
{
    struct str last = {"", 0};

    for (struct str rest = said; rest.n > 0;) {
        struct str line = str_trim(str_cut(rest, '\n', &rest));
        /* What every end of a connection says tells nothing. */
        if (line.n && !str_starts(line, STR("Connection to ")) &&
            !str_starts(line, STR("Killed by signal")) && !str_starts(line, STR("debug1:")))
            last = line;
    }
    return last;
}

static bool says(struct str said, const char *words)
{
    return !words[0] || memmem(said.p, said.n, words, strlen(words)) != NULL;
}

void trouble_of(const struct ssh_conf *c, struct str said, int wait_status, struct trouble *out)
{
    *out = (struct trouble){0};
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct row *r = &rows[i];
        if (!says(said, r->words) || (r->also && !says(said, r->also)))
            continue;
        out->lasting = r->lasting;
        if (r->text)
            trouble_fill(out, r->text, c);
        else
            denied(c, out);
        return;
    }
    struct str line = last_line(said);
    AUTO_FREE char *where = ssh_conf_where(c);
    if (line.n)
        snprintf(out->text, sizeof(out->text), "%.60s: %.*s", where, (int)MIN(line.n, 90), line.p);
    else if (WIFSIGNALED(wait_status))
        snprintf(out->text, sizeof(out->text), "the connection to %.60s was ended by signal %d",
                 where, WTERMSIG(wait_status));
    else
        snprintf(out->text, sizeof(out->text), "the connection to %.100s was lost", where);
}
