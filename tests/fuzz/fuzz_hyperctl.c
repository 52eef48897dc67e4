/* fuzz_hyperctl.c - batch files and templates: what is accepted can be written, stored and read
 * back, and its scripts have every value in quotes */
#include "base/util.h"
#include "dialect/hyperctl/generate.h"
#include "dialect/hyperctl/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_batch(const struct json *j)
{
    struct hyper_batch *b = NULL, *again = NULL;
    struct hyper_layout l;
    struct err e = {0};
    size_t left;

    if (hyper_batch_parse(j, "/", &b, &e) < 0) {
        ASSERT(e.code && e.text[0] && !b);
        return;
    }
    hyper_layout_init(&l, "/nowhere/at/all");
    ASSERT(hyper_layout_restore(&l, b, &left, &e) == 0);
    for (size_t i = 0; i < b->jobs.n; i++) {
        AUTO(buf) struct buf text = {0};
        ASSERT(!hyper_name_check(str_of(b->jobs.p[i].name), "job", &e));
        buf_init(&text, 64 << 20);
        hyper_script(&text, b, &b->jobs.p[i], "http://localhost:1");
        ASSERT(!strncmp(text.p, "#!/bin/sh\nexport HYPERCTL_JOB_NAME=\"", 36));
    }
    struct json *stored = hyper_config_json(b, l.dir, "1");
    AUTO_FREE char *text = json_text_as(stored, JSON_PYTHON_INDENTED);
    struct json *read = NULL;
    ASSERT(json_parse(str_of(text), "stored", &read, &e) == 0);
    ASSERT(hyper_batch_parse(read, "/", &again, &e) == 0 && again->jobs.n == b->jobs.n);
    for (size_t i = 0; i < b->jobs.n; i++)
        ASSERT(!strcmp(again->jobs.p[i].command, b->jobs.p[i].command));
    hyper_batch_free(again);
    json_free(read);
    json_free(stored);
    hyper_layout_done(&l);
    hyper_batch_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct str text = {(const char *)data, n};
    struct json *j = NULL, *made = NULL;
    struct err e = {0};

    if (json_parse(text, "batch.json", &j, &e) == 0)
        check_batch(j);
    json_free(j);
    j = NULL;
    if (hyper_template_parse(text, "template.yml", &j, &e) < 0)
        return 0;
    const struct json *params = json_get(j, "params");
    size_t jobs = 1;
    for (struct json_it it = {0}; json_next(params, &it);)
        jobs *= MIN(json_len(it.val), (size_t)100); /* a million jobs are tested elsewhere */
    if (jobs < 1000 && hyper_generate(j, "1", &made, &e) == 0)
        check_batch(made);
    json_free(made);
    json_free(j);
    return 0;
}
