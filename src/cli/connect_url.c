/* connect_url.c - a daemon that is reached by a URL: which token it is shown */
#include "base/file.h"
#include "base/util.h"
#include "cli/cli.h"
#include <arpa/inet.h>
#include <strings.h>

enum { TOKEN_MAX = 4096 };

/* Guards the home's token: no other machine gets it without --token-file or $BERTH_TOKEN. */
bool url_is_loopback(const char *url)
{
    const char *host = strstr(url, "://");
    struct in_addr v4;

    if (!host)
        return false;
    host += 3;
    size_t n = host[0] == '[' ? strcspn(host, "]/?#") + 1 : strcspn(host, ":/?#");
    /* What stands before an '@' is a user's name, and the host comes behind it. */
    if (memchr(host, '@', strcspn(host, "/?#")))
        return false;
    AUTO_FREE char *text = xstrndup(host, n);
    if (!strcasecmp(text, "localhost") || !strcmp(text, "[::1]"))
        return true;
    return inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

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
