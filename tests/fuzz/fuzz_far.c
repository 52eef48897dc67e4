/* fuzz_far.c - what the daemon and a far program read of each other
 *
 * The bytes are a stream of frames, decoded as both ends do; a START that is accepted must survive
 * writing and reading again.  The same bytes are also taken for what ssh said, and for the
 * configuration of a node.
 */
#include "../unit/shepherd/run_start_equal.h"
#include "backend/ssh/ssh_priv.h"
#include "base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_start(struct str body)
{
    struct wire_start s = {0}, again = {0};
    struct frame_head h;
    struct str back;
    struct buf b;

    if (wire_get_start(body, &s)) {
        buf_init(&b, WIRE_FRAME_MAX + 1);
        ASSERT(wire_put_start(&b, &s));
        ASSERT(wire_next(buf_str(&b), &h, &back) == 1 && wire_get_start(back, &again));
        ASSERT(run_start_equal(&again.run, &s.run));
        wire_start_done(&again);
        buf_done(&b);
    }
    wire_start_done(&s);
}

static void check_devices(struct str body)
{
    struct node n = {.devices = xcalloc(NODE_MAX_GPUS, sizeof(struct device))};
    struct run_memory *runs = NULL;
    size_t n_runs = 0;

    if (wire_get_devices(body, &n, &runs, &n_runs))
        for (size_t i = 0; i < n.n_devices; i++)
            ASSERT(strlen(n.devices[i].uuid) < sizeof(n.devices[i].uuid) &&
                   n.devices[i].index == (int32_t)i);
    free(runs);
    free(n.devices);
}

static void check_frame(const struct frame_head *h, struct str body)
{
    struct wire_op op;
    struct wire_asset a;
    struct wire_ended e;
    struct wire_log l;
    struct wire_node node;
    struct str x, y;

    wire_get_op(body, &op);
    if (wire_get_op_text(body, &op, &x))
        ASSERT(x.n <= body.n);
    if (wire_get_asset(body, &a, &x, &y))
        ASSERT(strlen(x.p) == x.n && wire_name_ok(x) && y.n <= body.n);
    if (wire_get_ended(body, &e, &x))
        ASSERT(e.o.why < RUN_END_MAX && x.n <= WIRE_DETAIL_MAX);
    if (wire_get_log(body, &l, &x))
        ASSERT(l.stream < WIRE_STREAMS && x.n <= WIRE_PIECE);
    if (wire_get_node(body, &node))
        ASSERT(strlen(node.name) < sizeof(node.name) && node.slots > 0);
    if (h->type == WIRE_START)
        check_start(body);
    if (h->type == WIRE_DEVICES)
        check_devices(body);
}

static void check_words(struct str text)
{
    struct ssh_conf c = {.host = (char *)(uintptr_t) "host"};
    struct trouble t;
    struct json *j = NULL;

    trouble_of(&c, text, 0, &t);
    ASSERT(strlen(t.text) < sizeof(t.text));
    if (json_parse(text, "conf", &j, NULL) == 0) {
        struct ssh_conf read;
        if (ssh_conf_read(&read, j, NULL) == 0)
            ASSERT(read.host[0] && read.host[0] != '-');
        ssh_conf_done(&read);
    }
    json_free(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    AUTO_FREE char *exact = xmalloc(n + 1); /* reads past the end are seen */
    struct str in = {exact, n};
    struct frame_head h;
    struct str body;

    memcpy(exact, data, n);
    while (wire_next(in, &h, &body) == 1) {
        ASSERT(h.n <= in.n && body.p + body.n <= in.p + in.n);
        check_frame(&h, body);
        in.p += h.n;
        in.n -= h.n;
    }
    check_words((struct str){exact, n});
    return 0;
}
