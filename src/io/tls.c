/* tls.c - TLS for incoming connections, OpenSSL 3 as a filter over memory
 *
 * The library is opened when the first TLS listener is made: linked, it would cost every command
 * line call 4 ms and 5 MB.  The prototypes below are our own, so no header of it is needed either.
 * A missing library is an error of listening with TLS and of nothing else.
 *
 * Bytes from the socket go into the read BIO, plain bytes come out of SSL_read; plain bytes go into
 * SSL_write, what the write BIO then holds goes to the socket.
 */
#include "io/http_priv.h"
#include <dlfcn.h>
#include <stdio.h>

typedef struct tls_ctx ssl_ctx_t; /* the rest of this room holds it as it is */
typedef struct ssl_st ssl_t;
typedef struct bio_st bio_t;

/* result, name, parameters; the first group lives in libcrypto, which libssl brings along */
#define TLS_FUNCTIONS(X)                                                                           \
    X(void, ERR_clear_error, (void))                                                               \
    X(unsigned long, ERR_get_error, (void))                                                        \
    X(const char *, ERR_reason_error_string, (unsigned long))                                      \
    X(bio_t *, BIO_new, (const void *))                                                            \
    X(const void *, BIO_s_mem, (void))                                                             \
    X(int, BIO_read, (bio_t *, void *, int))                                                       \
    X(int, BIO_write, (bio_t *, const void *, int))                                                \
    X(size_t, BIO_ctrl_pending, (bio_t *))                                                         \
    X(const void *, TLS_server_method, (void))                                                     \
    X(ssl_ctx_t *, SSL_CTX_new, (const void *))                                                    \
    X(void, SSL_CTX_free, (ssl_ctx_t *))                                                           \
    X(long, SSL_CTX_ctrl, (ssl_ctx_t *, int, long, void *))                                        \
    X(uint64_t, SSL_CTX_set_options, (ssl_ctx_t *, uint64_t))                                      \
    X(int, SSL_CTX_use_certificate_chain_file, (ssl_ctx_t *, const char *))                        \
    X(int, SSL_CTX_use_PrivateKey_file, (ssl_ctx_t *, const char *, int))                          \
    X(int, SSL_CTX_check_private_key, (const ssl_ctx_t *))                                         \
    X(ssl_t *, SSL_new, (ssl_ctx_t *))                                                             \
    X(void, SSL_free, (ssl_t *))                                                                   \
    X(void, SSL_set_bio, (ssl_t *, bio_t *, bio_t *))                                              \
    X(void, SSL_set_accept_state, (ssl_t *))                                                       \
    X(int, SSL_is_init_finished, (const ssl_t *))                                                  \
    X(int, SSL_read, (ssl_t *, void *, int))                                                       \
    X(int, SSL_write, (ssl_t *, const void *, int))                                                \
    X(int, SSL_shutdown, (ssl_t *))                                                                \
    X(int, SSL_get_error, (const ssl_t *, int))

enum {
    FILETYPE_PEM = 1,
    CTRL_MODE = 33,
    CTRL_SET_MIN_PROTO_VERSION = 123,
    TLS1_2 = 0x0303,
    MODE_RELEASE_BUFFERS = 0x10, /* an idle connection gives 34 KB back */
    ERROR_WANT_READ = 2,
    ERROR_ZERO_RETURN = 6,
    PLAIN_BYTES = 16 * 1024, /* one record */
};
static const uint64_t OP_NO_RENEGOTIATION = UINT64_C(1) << 30;

static struct {
#define X(result, name, params) result(*name) params;
    TLS_FUNCTIONS(X)
#undef X
} ssl;
static bool loaded;

/* failed: after a fatal error OpenSSL must not be asked to shut down.  said_bye: the alert was
 * sent. */
struct tls_conn {
    ssl_t *ssl;
    bio_t *in, *out; /* belong to ssl */
    bool failed, said_bye;
};

static int tls_load(struct err *e)
{
    if (loaded)
        return 0;
    void *lib = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        return err_set(e, ERR_UNAVAILABLE,
                       "TLS needs OpenSSL 3 and libssl.so.3 cannot be opened; install libssl3");
        /* dlsym also searches what libssl depends on, hence libcrypto. */
#define X(result, name, params)                                                                    \
    if (!(ssl.name = (result(*) params)dlsym(lib, #name))) {                                       \
        dlclose(lib);                                                                              \
        return err_set(e, ERR_UNAVAILABLE, "libssl.so.3 has no function %s; install OpenSSL 3",    \
                       #name);                                                                     \
    }
    TLS_FUNCTIONS(X)
#undef X
    loaded = true;
    return 0;
}

/* Takes OpenSSL's first reason and clears the rest, so that a later call does not report it. */
static int ssl_err(struct err *e, const char *what, const char *path)
{
    unsigned long code = ssl.ERR_get_error();
    const char *reason = code ? ssl.ERR_reason_error_string(code) : NULL;

    ssl.ERR_clear_error();
    return err_set(e, ERR_INVALID, "cannot use the TLS %s %s: %s", what, path,
                   reason ? reason : "unknown reason");
}

struct tls_ctx *tls_ctx_new(const char *cert, const char *key, struct err *e)
{
    if (tls_load(e) < 0)
        return NULL;
    ssl_ctx_t *ctx = ssl.SSL_CTX_new(ssl.TLS_server_method());
    ASSERT(ctx);
    int r = 0;
    ssl.ERR_clear_error();
    ssl.SSL_CTX_ctrl(ctx, CTRL_SET_MIN_PROTO_VERSION, TLS1_2, NULL);
    ssl.SSL_CTX_ctrl(ctx, CTRL_MODE, MODE_RELEASE_BUFFERS, NULL);
    ssl.SSL_CTX_set_options(ctx, OP_NO_RENEGOTIATION);
    if (!key)
        r = err_set(e, ERR_INVALID, "the TLS certificate %s needs its private key", cert);
    else if (ssl.SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
        r = ssl_err(e, "certificate", cert);
    else if (ssl.SSL_CTX_use_PrivateKey_file(ctx, key, FILETYPE_PEM) != 1 ||
             ssl.SSL_CTX_check_private_key(ctx) != 1)
        r = ssl_err(e, "private key", key);
    if (r < 0) {
        ssl.SSL_CTX_free(ctx);
        return NULL;
    }
    return ctx;
}

void tls_ctx_free(struct tls_ctx *ctx)
{
    if (ctx)
        ssl.SSL_CTX_free(ctx);
}

struct tls_conn *tls_conn_new(struct tls_ctx *ctx)
{
    struct tls_conn *t = xcalloc(1, sizeof(*t));

    t->ssl = ssl.SSL_new(ctx);
    t->in = ssl.BIO_new(ssl.BIO_s_mem());
    t->out = ssl.BIO_new(ssl.BIO_s_mem());
    ASSERT(t->ssl && t->in && t->out);
    ssl.SSL_set_bio(t->ssl, t->in, t->out);
    ssl.SSL_set_accept_state(t->ssl);
    return t;
}

void tls_conn_free(struct tls_conn *t)
{
    if (!t)
        return;
    ssl.SSL_free(t->ssl);
    free(t);
}

bool tls_conn_ready(const struct tls_conn *t)
{
    return ssl.SSL_is_init_finished(t->ssl);
}

/* What OpenSSL has to say, to the socket. */
static void flush(struct http_conn *c)
{
    size_t n = ssl.BIO_ctrl_pending(c->tls->out);

    if (n == 0 || c->phase == CONN_CLOSED)
        return;
    char *p = xmalloc(n);
    int got = ssl.BIO_read(c->tls->out, p, (int)MIN(n, (size_t)INT32_MAX));
    uv_buf_t b = {.base = p, .len = (size_t)MAX(got, 0)};
    http_send_raw(c, &b, 1, p);
}

void tls_input(struct http_conn *c, const char *p, size_t n)
{
    struct http_server *s = c->srv;
    struct tls_conn *t = c->tls;

    if (!s->tls_plain)
        s->tls_plain = xmalloc(PLAIN_BYTES);
    ssl.ERR_clear_error();
    if (ssl.BIO_write(t->in, p, (int)n) != (int)n) {
        http_conn_close(c);
        return;
    }
    int got;
    while ((got = ssl.SSL_read(t->ssl, s->tls_plain, PLAIN_BYTES)) > 0) {
        http_conn_feed(c, s->tls_plain, (size_t)got);
        if (c->phase == CONN_CLOSED)
            return;
    }
    int why = ssl.SSL_get_error(t->ssl, got);
    ssl.ERR_clear_error();
    flush(c); /* handshake records, or the alert that says what was wrong */
    if (c->phase == CONN_CLOSED || why == ERROR_WANT_READ)
        return;
    t->failed = why != ERROR_ZERO_RETURN;
    if (t->failed)
        http_conn_close(c);
    else
        http_conn_eof(c, UV_EOF);
}

void tls_send(struct http_conn *c, const uv_buf_t *bufs, unsigned n)
{
    struct tls_conn *t = c->tls;

    for (unsigned i = 0; i < n; i++) {
        for (size_t done = 0; done < bufs[i].len;) {
            int part = (int)MIN(bufs[i].len - done, (size_t)1 << 30);
            int wrote = ssl.SSL_write(t->ssl, bufs[i].base + done, part);
            if (wrote <= 0) {
                ssl.ERR_clear_error();
                t->failed = true;
                http_conn_close(c);
                return;
            }
            done += (size_t)wrote;
        }
    }
    flush(c);
}

void tls_bye(struct http_conn *c)
{
    struct tls_conn *t = c->tls;

    if (t->said_bye || t->failed || !tls_conn_ready(t))
        return;
    t->said_bye = true;
    ssl.SSL_shutdown(t->ssl);
    ssl.ERR_clear_error();
    flush(c);
}
