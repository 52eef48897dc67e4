/* fuzz_atlas.c - what strangers send to an Atlas server
 *
 * The first byte chooses: a form in pieces, a job for the queue, a config, a date of a filter.  A
 * job that is accepted must be one the model accepts too, and none of its mounts may take the place
 * of those the server makes itself.
 */
#include "base/util.h"
#include "dialect/atlas/config.h"
#include "dialect/atlas/listing_priv.h"
#include "dialect/atlas/multipart.h"
#include "dialect/atlas/translate.h"
#include "model/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static size_t parts, bytes;

static int on_begin(void *arg, const char *name, const char *file, struct err *e)
{
    (void)arg;
    ASSERT(strlen(name) <= MULTIPART_NAME_MAX && strlen(file) <= MULTIPART_NAME_MAX);
    return ++parts > 100 ? err_set(e, ERR_LIMIT, "enough") : 0;
}

static int on_data(void *arg, struct str piece, struct err *e)
{
    (void)arg;
    (void)e;
    bytes += piece.n;
    return 0;
}

static int on_end(void *arg, struct err *e)
{
    (void)arg;
    (void)e;
    return 0;
}

/* The same bytes in two sizes of pieces must be read alike. */
static void form(struct str body, size_t piece)
{
    static const struct multipart_events events = {on_begin, on_data, on_end, NULL};
    size_t seen[2];

    for (size_t k = 0; k < 2; k++) {
        struct multipart m;
        struct err e = {0};
        struct str rest = body;
        size_t step = k ? body.n + 1 : piece;
        parts = bytes = 0;
        multipart_init(&m, STR("multipart/form-data; boundary=ab"), &e);
        while (rest.n > 0) {
            size_t n = MIN(step, rest.n);
            if (multipart_feed(&m, (struct str){rest.p, n}, &events, &e) < 0)
                break;
            rest = (struct str){rest.p + n, rest.n - n};
        }
        ASSERT(bytes <= body.n);
        seen[k] = parts * 100000 + (e.code ? 50000 : 0);
    }
    ASSERT(seen[0] == seen[1]);
}

static void job(struct str text)
{
    const struct atlas_world w = {.home = "/h", .python = "python3", .mounts = true, .gpus = 4};
    struct json *body = NULL, *made = NULL;
    struct atlas_submission s;
    struct spec *spec = NULL;
    struct err e = {0};

    if (json_parse(text, "body", &body, &e) < 0)
        return;
    if (atlas_submission_read(body, &s, &e) == 0 && atlas_translate(&s, &w, &made, &e) == 0 &&
        spec_parse(made, "", &spec, &e) == 0) {
        struct str run = json_get_str(json_get(made, "extra"), "run");
        bool refused = str_eq_c(run, ATLAS_RUN_REFUSE); /* it only prints why: it mounts nothing */
        size_t own = 0, all = 0;
        for (char **m = spec->container.mounts; m && *m; m++, all++)
            own += strstr(*m, ":/job") && !strcmp(strstr(*m, ":/job"), ":/job");
        ASSERT(refused ? all == 0 : own == 1);
        ASSERT(!strcmp(spec->queue, "atlas") && !strcmp(spec->origin.dialect, "atlas"));
    }
    ASSERT(spec || e.text[0]);
    spec_free(spec);
    json_free(made);
    json_free(body);
}

static void config(struct str text, enum atlas_config_kind kind)
{
    struct json *j = NULL;
    struct err e = {0};
    int64_t ram = 0;

    if (atlas_config_parse(text, "x.yaml", kind, NULL, NULL, &j, &e) < 0) {
        ASSERT(e.text[0] && !j);
        return;
    }
    if (json_has(j, "ram") && atlas_ram_bytes(json_get(j, "ram"), &ram, &e) == 0)
        ASSERT(ram > 0);
    json_free(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str rest = {(const char *)data + 1, n ? n - 1 : 0};
    AUTO_FREE char *text = NULL;
    int64_t ms;

    if (!n)
        return 0;
    switch (data[0] % 4) {
    case 0:
        form(rest, 1 + data[0] / 4);
        break;
    case 1:
        job(rest);
        break;
    case 2:
        config(rest, (enum atlas_config_kind)(data[0] / 4 % 3));
        break;
    default:
        text = xstrndup(rest.p, rest.n);
        if (atlas_date_parse(text, &ms))
            ASSERT(ms >= 0);
        if (atlas_duration_parse(text, &ms))
            ASSERT(ms >= 0);
        atlas_image_is_standard(rest);
    }
    return 0;
}
