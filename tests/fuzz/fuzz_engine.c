/* fuzz_engine.c - what a container engine answers: HTTP, streams of output, progress of a pull
 *
 * The first byte chooses, the second says in which pieces the rest arrives.  Output that is read in
 * pieces must be the output read at once, and reading it twice must give it once.
 */
#include "backend/docker/docker_priv.h"
#include "base/util.h"
#include "io/http_exchange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct sink {
    struct buf out[2];
};

static bool keep(void *arg, int stream, struct str bytes)
{
    struct sink *s = arg;

    ASSERT(stream == 1 || stream == 2);
    return buf_add(&s->out[stream - 1], bytes.p, bytes.n);
}

static void sink_init(struct sink *s, struct frames *f)
{
    buf_init(&s->out[0], 1 << 24);
    buf_init(&s->out[1], 1 << 24);
    *f = (struct frames){.out = keep, .arg = s};
}

static void sink_done(struct sink *s)
{
    buf_done(&s->out[0]);
    buf_done(&s->out[1]);
}

static bool feed_all(struct frames *f, struct str in, size_t piece)
{
    for (; in.n; in = (struct str){in.p + MIN(piece, in.n), in.n - MIN(piece, in.n)})
        if (!frames_feed(f, (struct str){in.p, MIN(piece, in.n)}))
            return false;
    return true;
}

static void streams(struct str in, size_t piece)
{
    struct sink whole, pieces;
    struct frames a, b;

    sink_init(&whole, &a);
    sink_init(&pieces, &b);
    bool fine = feed_all(&a, in, in.n ? in.n : 1);
    feed_all(&b, (struct str){in.p, in.n / 2}, piece);
    frames_again(&b);
    ASSERT(feed_all(&b, in, piece) == fine);
    for (int i = 0; i < 2; i++)
        ASSERT(str_eq(buf_str(&whole.out[i]), buf_str(&pieces.out[i])));
    sink_done(&whole);
    sink_done(&pieces);
}

static bool collect(void *arg, struct str piece)
{
    return buf_add(arg, piece.p, piece.n);
}

static void answers(struct str in, size_t piece)
{
    AUTO(buf) struct buf body = {0};
    struct err e = {0};
    struct json *tree = NULL;
    char text[64];
    int more = 1;

    buf_init(&body, 1 << 20);
    const struct http_exchange_fns fns = {.body = collect};
    struct http_exchange *x =
        http_exchange_new(&(struct http_request){"GET", "/info"}, &fns, &body);
    while (in.n && more == 1) {
        size_t take = MIN(piece, in.n);
        more = http_exchange_feed(x, in.p, take, &e);
        in = (struct str){in.p + take, in.n - take};
    }
    if (more == 1)
        more = http_exchange_feed(x, NULL, 0, &e);
    ASSERT(more == 0 || more == -1);
    if (more == 0 && json_parse(buf_str(&body), "answer", &tree, &e) == 0) {
        struct run_key key;
        engine_complaint(tree, http_exchange_status(x), text, sizeof(text));
        gateway_address(tree, text);
        container_key(tree, &key);
        json_free(tree);
    }
    http_exchange_free(x);
}

static void say(const char *text)
{
    ASSERT(strlen(text) < 1 << 20);
}

static void progress(struct str in, size_t piece)
{
    struct pull *p = pull_new("x", say);

    for (; in.n; in = (struct str){in.p + MIN(piece, in.n), in.n - MIN(piece, in.n)})
        if (!pull_feed(p, (struct str){in.p, MIN(piece, in.n)}))
            break;
    const char *trouble = pull_trouble(p);
    ASSERT(!trouble || !strpbrk(trouble, "\n\033"));
    pull_end(p);
    pull_free(p);
}

static void told(struct str in)
{
    const struct engine g = {0};
    struct facts f;
    struct err e;

    if (facts_parse(&f, in, &e) < 0)
        return;
    json_free(create_body(&f, &g, &(struct create_with){.image = f.doc, .endpoint = "10.0.0.1:1"}));
    facts_done(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2)
        return 0;
    struct str in = {(const char *)data + 2, n - 2};
    size_t piece = data[1] ? data[1] : 256;
    switch (data[0] % 4) {
    case 0:
        streams(in, piece);
        break;
    case 1:
        answers(in, piece);
        break;
    case 2:
        progress(in, piece);
        break;
    default:
        told(in);
    }
    return 0;
}
