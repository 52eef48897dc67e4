/* bootstrap.c - from a shell on the other side to our program there
 *
 * One connection, nothing but sh and a few POSIX tools: the command of the connection is a script
 * that says what machine it is on and whether the programs are there with the right hash, takes
 * them from its stdin when they are not, and turns into the far program.
 *
 *   there: BERTH-FAR HELLO x86_64 yes|no     here: go, or put BYTES BYTES BYTES, and they
 *   there: BERTH-FAR STORED                  here: go
 *   there: BERTH-FAR RUNS                    from here on frames
 *   there: BERTH-FAR FAILED what             stderr says why (trouble.c)
 *
 * A login that prints something first is common: lines that are not ours are passed over.  The
 * script is one line without quotes of its own or exclamation marks, as csh and fish must be able
 * to carry it too.  A program that is there under its hash but is not what it should be is
 * replaced.
 */
#include "backend/ssh/ssh_priv.h"
#include "base/util.h"
#include <sys/utsname.h>

/* LINE_MAX_BYTES bounds what a login may print before our first line; more of the programs is
 * put into link.out only while less than FEED_BYTES wait there. */
enum { LINE_MAX_BYTES = 64 << 10, FEED_BYTES = 256 << 10 };

/* %1 the hash, %2 the controller */
static const char script[] =
    "LC_ALL=C; export LC_ALL; umask 077; d=\"$HOME/.cache/berth/%1\"; f=\"$d/berth-far\"; "
    "s=\"$d/berth-shepherd\"; l=\"$d/library\"; "
    "h() { cat \"$1\" \"$2\" \"$3\" | { sha256sum 2>/dev/null || openssl dgst -sha256 -r "
    "2>/dev/null || echo unknown; }; }; "
    "y=no; if [ -x \"$f\" ] && [ -x \"$s\" ] && [ -f \"$l\" ]; then "
    "case \"$(h \"$f\" \"$s\" \"$l\")\" in %1*) y=yes;; esac; fi; "
    "echo; echo \"BERTH-FAR HELLO $(uname -m) $y\"; "
    "while read -r w n m k; do case \"$w\" in "
    "put) t=\"$d.$$\"; "
    "if mkdir -p \"$d\" \"$t\" && head -c \"$((n + m + k))\" > \"$t/a\" && "
    "head -c \"$n\" < \"$t/a\" > \"$t/f\" && "
    "tail -c \"+$((n + 1))\" < \"$t/a\" | head -c \"$m\" > \"$t/s\" && "
    "tail -c \"+$((n + m + 1))\" < \"$t/a\" > \"$t/l\"; then "
    "case \"$(h \"$t/f\" \"$t/s\" \"$t/l\")\" in %1*|unknown*) "
    "if rm -rf \"$d/lib\" && chmod 700 \"$t/f\" \"$t/s\" && mv -f \"$t/l\" \"$l\" && "
    "mv -f \"$t/s\" \"$s\" && mv -f \"$t/f\" \"$f\"; then "
    "echo BERTH-FAR STORED; else echo BERTH-FAR FAILED store; fi;; "
    "*) echo BERTH-FAR FAILED hash;; esac; "
    "else echo BERTH-FAR FAILED store; fi; rm -rf \"$t\";; "
    "go) if \"$f\" --check; then exec \"$f\" %2; else echo \"BERTH-FAR FAILED check $?\"; fi;; "
    "esac; done";

char *bootstrap_script(const struct backend *b)
{
    struct buf out;

    buf_init(&out, 1 << 20);
    for (const char *p = script; *p; p++) {
        if (*p == '%' && (p[1] == '1' || p[1] == '2'))
            buf_adds(&out, *++p == '1' ? b->link.programs->hash : b->controller);
        else
            buf_addc(&out, *p);
    }
    return buf_take(&out, NULL);
}

static void bootstrap_proceed(struct backend *b)
{
    buf_adds(&b->link.out, "go\n");
    connect_send(b);
}

/* False: the connection was dropped.  Structs travel as they are, so both machines must have
 * the same architecture. */
static bool bootstrap_on_hello(struct backend *b, struct str rest)
{
    struct str have, machine = str_cut(rest, ' ', &have);
    struct utsname us;

    if (uname(&us) == 0 && !str_eq_c(machine, us.machine)) {
        AUTO_FREE char *where = ssh_conf_where(&b->conf);
        connect_drop(b, true,
                     "%.60s is a %.*s machine and this berth is for %s; install berth there", where,
                     (int)MIN(machine.n, 20), machine.p, us.machine);
        return false;
    }
    if (str_eq_c(have, "yes")) {
        bootstrap_proceed(b);
        return true;
    }
    b->link.state = SSH_UPLOADING;
    b->link.uploaded = 0;
    buf_addf(&b->link.out, "put %zu %zu %zu\n", b->link.programs->far_n,
             b->link.programs->shepherd_n, b->link.programs->library_n);
    bootstrap_feed(b);
    return true;
}

static size_t left_to_send(const struct backend *b)
{
    return b->link.programs->far_n + b->link.programs->shepherd_n + b->link.programs->library_n -
           b->link.uploaded;
}

bool bootstrap_waits(const struct backend *b)
{
    return b->link.state == SSH_UPLOADING && left_to_send(b) > 0;
}

void bootstrap_feed(struct backend *b)
{
    while (bootstrap_waits(b) && b->link.out.n - b->link.out_sent < FEED_BYTES) {
        size_t n = MIN(left_to_send(b), (size_t)FEED_BYTES);
        if (!buf_add(&b->link.out, b->link.programs->bytes + b->link.uploaded, n))
            return;
        b->link.uploaded += n;
        b->link.heard_ms = loop_mono_ms(b->loop); /* as long as it moves, it is not given up */
    }
    connect_send(b);
}

/* The far program runs: it is greeted, and the rest of the input is frames. */
static bool on_runs(struct backend *b)
{
    AUTO_FREE char *conf = json_text(b->conf.node);

    b->link.state = SSH_GREETING;
    wire_put_text(&b->link.out, WIRE_HELLO, str_of(conf));
    connect_send(b);
    return true;
}

/* Lines that are not ours, or not expected in this state, are ignored. */
static bool on_line(struct backend *b, struct str line)
{
    static const struct str ours = {"BERTH-FAR ", 10};

    if (!str_starts(line, ours))
        return true;
    struct str rest = {line.p + ours.n, line.n - ours.n}, tail, word = str_cut(rest, ' ', &tail);
    if (str_eq_c(word, "HELLO") && b->link.state == SSH_DIALING)
        return bootstrap_on_hello(b, tail);
    if (str_eq_c(word, "STORED") && b->link.state == SSH_UPLOADING) {
        bootstrap_proceed(b);
        return true;
    }
    if (str_eq_c(word, "RUNS"))
        return on_runs(b);
    if (str_eq_c(word, "FAILED")) {
        buf_add(&b->link.said, line.p, line.n);
        buf_addc(&b->link.said, '\n');
        connect_drop(b, false, "%s", "");
        return false;
    }
    return true;
}

bool bootstrap_read(struct backend *b)
{
    while (b->link.state == SSH_DIALING || b->link.state == SSH_UPLOADING) {
        struct str in = buf_str(&b->link.in);
        const char *nl = memchr(in.p, '\n', in.n);
        if (!nl && in.n > LINE_MAX_BYTES) {
            connect_drop(b, true, "%s",
                         "the login shell of the node prints too much before it runs a command; "
                         "make its start-up files silent");
            return false;
        }
        if (!nl)
            return true;
        struct str line = str_trim((struct str){in.p, (size_t)(nl - in.p)});
        bool ok = on_line(b, line);
        if (!ok)
            return false;
        buf_consume(&b->link.in, (size_t)(nl - in.p) + 1);
    }
    return true;
}
