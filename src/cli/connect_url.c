/* connect_url.c - a daemon that is reached by a URL: which token it is shown */
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include "io/address.h"

enum { TOKEN_MAX = 4096 };

/* Yours; NULL when there is none.  The home's own token is sent to daemons on this machine only. */
static int url_token(struct cli *c, char **out, struct err *e)
{
    const char *env = getenv("BERTH_TOKEN");
    size_t n;

    *out = NULL;
    if (!c->opt.token_file && env && *env) {
        *out = xstrdup(env);
        return 0;
    }
    if (!c->opt.token_file && !url_is_loopback(c->target))
        return 0;
    AUTO_FREE char *path =
        c->opt.token_file ? xstrdup(c->opt.token_file) : path_join(c->home, "token");
    AUTO_FREE char *text = NULL;
    if (file_read_all(path, TOKEN_MAX, &text, &n, e) < 0)
        return c->opt.token_file ? err_wrap(e, "reading the token") : 0;
    struct str trimmed = str_trim((struct str){text, n});
    *out = xstrndup(trimmed.p, trimmed.n);
    return 0;
}

int cli_connect_url(struct cli *c, struct err *e)
{
    AUTO_FREE char *token = NULL;

    if (url_token(c, &token, e) < 0)
        return -1;
    c->http = http_client_new(c->target, token, c->opt.ca_file);
    return 0;
}
