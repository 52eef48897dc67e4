/* pull.c - fetching an image: the progress of its layers, as lines for the log
 *
 * The engine answers with one JSON object after another, several a second for every layer.  People
 * get a line at the beginning, one every few seconds with layers and bytes, and one at the end.
 */
#include "backend/docker/docker_priv.h"
#include "base/clock.h"
#include "base/units.h"
#include "base/util.h"
#include "base/vec.h"
#include "io/http_client.h"
#include <stdio.h>

enum { SAY_EVERY_MS = 3000, LINE_MAX_BYTES = 1 << 20, LAYERS_MAX = 1024, TROUBLE_MAX = 200 };

/* One layer; bytes, as the engine reports them.  `size` is 0 until the engine knows it. */
struct layer {
    char id[24];
    int64_t got, size;
    bool done;
};
struct pull {
    char *image;
    struct buf line; /* not complete yet */
    VEC(struct layer) layers;
    char trouble[TROUBLE_MAX];
    int64_t began_ms, said_ms;
    void (*say)(const char *text);
};

struct pull *pull_new(const char *image, void (*say)(const char *text))
{
    struct pull *p = xcalloc(1, sizeof(*p));

    p->image = xstrdup(image);
    p->say = say;
    p->began_ms = p->said_ms = clock_mono(&clock_system);
    buf_init(&p->line, LINE_MAX_BYTES);
    AUTO_FREE char *text = xasprintf("pulling image %s", image);
    say(text);
    return p;
}

void pull_free(struct pull *p)
{
    if (!p)
        return;
    buf_done(&p->line);
    FREE_EACH(p->layers.p, p->image, p);
}

/* Without a tag an engine would fetch all there are. */
char *pull_path(const char *image)
{
    const char *slash = strrchr(image, '/'), *name = slash ? slash + 1 : image;
    const char *colon = strchr(name, ':');
    bool digest = strchr(name, '@') != NULL;
    AUTO(buf) struct buf b = {0};

    buf_init(&b, 1 << 16);
    buf_adds(&b, "/images/create?fromImage=");
    url_encode(&b, digest || !colon ? str_of(image) : (struct str){image, (size_t)(colon - image)});
    if (!digest) {
        buf_adds(&b, "&tag=");
        url_encode(&b, str_of(colon ? colon + 1 : "latest"));
    }
    return buf_take(&b, NULL);
}

/* ---- what the engine says ---- */

static struct str pull_text(const struct json *o, const char *key)
{
    const struct json *v = json_get(o, key);

    return json_type(v) == JSON_STR ? json_str(v) : STR("");
}

static int64_t bytes_of(const struct json *o, const char *key)
{
    const struct json *v = json_get(o, key);

    return json_type(v) == JSON_INT && json_int(v) > 0 ? json_int(v) : 0;
}

/* NULL for an id that is empty or too long, or beyond LAYERS_MAX: it is then not shown. */
static struct layer *layer_of(struct pull *p, struct str id)
{
    struct layer fresh = {0};

    for (size_t i = 0; i < p->layers.n; i++)
        if (str_eq_c(id, p->layers.p[i].id))
            return &p->layers.p[i];
    if (!id.n || id.n >= sizeof(fresh.id) || p->layers.n == LAYERS_MAX)
        return NULL;
    memcpy(fresh.id, id.p, id.n);
    vec_push(&p->layers, fresh);
    return &vec_last(&p->layers);
}

static void on_layer(struct pull *p, struct str status, const struct json *o)
{
    const struct json *detail = json_get(o, "progressDetail");
    struct layer *l;

    if (str_starts(status, STR("Pulling from"))) /* its id is the tag */
        return;
    l = layer_of(p, pull_text(o, "id"));
    if (!l)
        return;
    if (str_eq_c(status, "Downloading")) {
        l->got = bytes_of(detail, "current");
        l->size = MAX(l->size, bytes_of(detail, "total"));
    } else if (str_eq_c(status, "Pull complete") || str_eq_c(status, "Already exists")) {
        l->done = true;
        l->got = l->size;
    } else if (str_eq_c(status, "Download complete")) {
        l->got = l->size;
    }
}

static void say_progress(struct pull *p, const char *what, const char *after)
{
    char got[UNIT_TEXT_MAX], size[UNIT_TEXT_MAX];
    int64_t have = 0, all = 0;
    size_t done = 0;

    for (size_t i = 0; i < p->layers.n; i++) {
        have += p->layers.p[i].got;
        all += p->layers.p[i].size;
        done += p->layers.p[i].done;
    }
    size_format(have, got);
    size_format(all, size);
    AUTO_FREE char *text = xasprintf("%s image %s: %zu of %zu layers, %s of %s%s", what, p->image,
                                     done, p->layers.n, got, size, after);
    p->say(text);
}

/* In one line, without control characters: it goes to the log of the run and to the user. */
static void keep_trouble(struct pull *p, struct str words)
{
    words = str_trim(words);
    snprintf(p->trouble, sizeof(p->trouble), STR_FMT, (int)MIN(words.n, TROUBLE_MAX - 1), words.p);
    for (char *c = p->trouble; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
}

static void on_object(struct pull *p, struct str line)
{
    AUTO(json) struct json *o = NULL;
    struct err e;

    if (!str_trim(line).n || json_parse(str_trim(line), "progress", &o, &e) < 0)
        return; /* a form of progress we do not know; whether it is there is asked afterwards */
    if (pull_text(o, "error").n)
        keep_trouble(p, pull_text(o, "error"));
    else if (pull_text(o, "message").n) /* refused at once, by status */
        keep_trouble(p, pull_text(o, "message"));
    else
        on_layer(p, pull_text(o, "status"), o);
    int64_t now = clock_mono(&clock_system);
    if (p->layers.n && now - p->said_ms >= SAY_EVERY_MS) {
        p->said_ms = now;
        say_progress(p, "pulling", "");
    }
}

/* False for a line beyond LINE_MAX_BYTES: that is no progress report. */
bool pull_feed(void *pull, struct str piece)
{
    struct pull *p = pull;

    while (piece.n) {
        const char *nl = memchr(piece.p, '\n', piece.n);
        size_t n = nl ? (size_t)(nl - piece.p) + 1 : piece.n;
        if (!buf_add(&p->line, piece.p, n))
            return false;
        if (nl) {
            on_object(p, buf_str(&p->line));
            buf_reset(&p->line);
        }
        piece = (struct str){piece.p + n, piece.n - n};
    }
    return true;
}

const char *pull_trouble(struct pull *p)
{
    if (p->line.n) { /* the last one need not end its line */
        on_object(p, buf_str(&p->line));
        buf_reset(&p->line);
    }
    return p->trouble[0] ? p->trouble : NULL;
}

void pull_end(struct pull *p)
{
    char took[UNIT_TEXT_MAX];

    duration_format(clock_mono(&clock_system) - p->began_ms, took);
    AUTO_FREE char *after = xasprintf(" in %s", took);
    say_progress(p, "pulled", after);
}
