/* listen_addr.c - addresses to listen on, as options have them */
#include "cli/listen_addr.h"
#include "base/str.h"
#include <stdio.h>
#include <string.h>

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
