/* address.c - addresses to listen on, as options have them; URLs of this machine */
#include "io/address.h"
#include "base/str.h"
#include "base/util.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

int listen_addr_parse(const char *option, const char *text, char *addr, size_t addr_size, int *port,
                      struct err *e)
{
    const char *colon = strrchr(text, ':');
    struct str host = {text, colon ? (size_t)(colon - text) : 0};
    int64_t n;

    if (!str_to_i64(str_of(colon ? colon + 1 : text), &n) || n < 0 || n > 65535)
        return err_set(e, ERR_INVALID, "%s '%.60s' does not end in a port; write ADDR:PORT", option,
                       text);
    if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
        host = (struct str){host.p + 1, host.n - 2};
    if (!host.n || str_eq_c(host, "localhost"))
        host = STR("127.0.0.1");
    if (host.n >= addr_size)
        return err_set(e, ERR_INVALID, "%s '%.60s' is too long for an address", option, text);
    snprintf(addr, addr_size, STR_FMT, STR_ARG(host));
    *port = (int)n;
    return 0;
}

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
