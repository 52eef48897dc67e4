/* site.c - is a request meant for this server, and may the page that makes it do so? */
#include "request/site.h"
#include "base/util.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <unistd.h>

enum { HOST_NAME_MAX_BYTES = 256 };

/* "[::1]:80" → "::1", "a.b:80" → "a.b". */
static struct str host_without_port(struct str host)
{
    const char *end;

    if (host.n && host.p[0] == '[') {
        end = memchr(host.p, ']', host.n);
        return end ? (struct str){host.p + 1, (size_t)(end - host.p) - 1} : host;
    }
    end = memchr(host.p, ':', host.n);
    return end ? (struct str){host.p, (size_t)(end - host.p)} : host;
}

/* A number needs no DNS, so no page can make a name of its own stand for it. */
static bool host_is_number(struct str host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr any;

    if (host.n == 0 || host.n >= sizeof(text))
        return false;
    memcpy(text, host.p, host.n);
    text[host.n] = 0;
    return inet_pton(AF_INET, text, &any) == 1 || inet_pton(AF_INET6, text, &any) == 1;
}

static bool host_ends_with(struct str host, struct str end)
{
    return host.n >= end.n && str_ieq((struct str){host.p + host.n - end.n, end.n}, end);
}

/* The name of the machine, whole or without its domain, whichever the request has. */
static bool host_is_machine(struct str host)
{
    char name[HOST_NAME_MAX_BYTES] = "";

    if (gethostname(name, sizeof(name) - 1) < 0 || !name[0])
        return false;
    struct str rest, whole = str_of(name);
    return str_ieq(host, whole) || str_ieq(host, str_cut(whole, '.', &rest));
}

bool site_host_known(struct str host, const char *names)
{
    struct str name = host_without_port(host), rest = str_of(names);

    if (host_is_number(name) || str_ieq(name, STR("localhost")) ||
        host_ends_with(name, STR(".localhost")) || host_is_machine(name))
        return true;
    while (rest.n)
        if (str_ieq(name, str_trim(str_cut(rest, ',', &rest))))
            return true;
    return false;
}

bool site_origin_same(struct str origin, struct str host)
{
    static const struct str schemes[] = {{"http://", 7}, {"https://", 8}};

    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
        if (str_starts(origin, schemes[i]))
            return host.n &&
                   str_ieq((struct str){origin.p + schemes[i].n, origin.n - schemes[i].n}, host);
    return false; /* "null": a page without an address */
}

/* "http://a.b:80/path" → "http://a.b:80". */
static struct str referer_origin(struct str referer)
{
    const char *host = memmem(referer.p, referer.n, "://", 3);

    if (!host)
        return referer;
    host += 3;
    const char *end = memchr(host, '/', referer.n - (size_t)(host - referer.p));
    return end ? (struct str){referer.p, (size_t)(end - referer.p)} : referer;
}

bool site_referer_same(struct str referer, struct str host)
{
    return site_origin_same(referer_origin(referer), host);
}

/* What an HTML form, or a script without leave of the server, can send. */
static bool is_form(struct str type)
{
    static const char *const forms[] = {"application/x-www-form-urlencoded", "multipart/form-data",
                                        "text/plain"};
    struct str rest, bare = str_trim(str_cut(type, ';', &rest));

    for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
        if (str_ieq(bare, str_of(forms[i])))
            return true;
    return false;
}

static bool from_browser(const struct http_req *r)
{
    return http_header(r, "origin").p || http_header(r, "sec-fetch-site").p ||
           http_header(r, "referer").p || str_starts(http_header(r, "user-agent"), STR("Mozilla/"));
}

static bool site_reads(const struct http_req *r)
{
    return str_eq_c(http_method(r), "GET") || str_eq_c(http_method(r), "HEAD");
}

int site_own_page(const struct http_req *r, struct err *e)
{
    struct str origin = http_header(r, "origin"), site = http_header(r, "sec-fetch-site");
    struct str host = http_header(r, "host"), referer = http_header(r, "referer");
    bool own = str_eq_c(site, "same-origin") || (str_eq_c(site, "none") && site_reads(r));

    if (origin.p)
        own = site_origin_same(origin, host) && (!site.p || own);
    else if (!site.p) /* a reading page of a plain HTTP server that is not on loopback */
        own = site_reads(r) && referer.n && site_referer_same(referer, host);
    if (own)
        return 0;
    return err_set(e, ERR_DENIED,
                   "the cookie of a session counts only for pages of this server; programs send "
                   "'Authorization: Bearer TOKEN'");
}

int site_check(const struct http_req *r, const char *names, bool proved, struct err *e)
{
    struct str host = http_header(r, "host"), origin = http_header(r, "origin");
    struct str site = http_header(r, "sec-fetch-site"), referer = http_header(r, "referer");
    bool reads = site_reads(r);

    if (http_peer(r)->is_unix)
        return 0;
    if (site.p && !str_eq_c(site, "same-origin") && !str_eq_c(site, "none"))
        return err_set(e, ERR_DENIED, "a page of another site may not use this server");
    if (origin.p && !site_origin_same(origin, host))
        return err_set(e, ERR_DENIED,
                       "the page %.*s is of another site and may not use this server",
                       (int)MIN(origin.n, 80), origin.p);
    if (proved)
        return 0;
    if (host.p && !site_host_known(host, names))
        return err_set(
            e, ERR_MISDIRECTED,
            "this server is not called %.*s; use its address, or start it with that name "
            "in BERTH_PUBLIC_NAME",
            (int)MIN(host.n, 80), host.p);
    /* A browser sends neither Sec-Fetch-Site nor Origin with an image of a plain HTTP server that
     * is not on loopback. */
    if (referer.n && !site.p && !origin.p && !site_referer_same(referer, host))
        return err_set(e, ERR_DENIED, "a page of another site may not use this server");
    if (!reads && from_browser(r) && is_form(http_header(r, "content-type")))
        return err_set(e, ERR_DENIED,
                       "a form may not change anything here; send Content-Type: application/json");
    return 0;
}
