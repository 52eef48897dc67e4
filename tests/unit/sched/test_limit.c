/* test_limit.c - when one more may start, and the words when it may not */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "sched/limit.h"

static void one_more(void **state)
{
    (void)state;
    assert_true(limit_open(&(struct limit){.running = 1000})); /* max 0: no limit */
    assert_true(limit_open(&(struct limit){.max = 3, .running = 2}));
    assert_false(limit_open(&(struct limit){.max = 3, .running = 3}));
    assert_false(limit_open(&(struct limit){.max = 3, .running = 1, .planned = 2}));
    assert_false(limit_open(&(struct limit){.max = 3, .running = 5})); /* it was lowered */
    assert_false(limit_open(&(struct limit){.paused = true}));
}

static void says(struct limit l, const char *word, const char *text)
{
    char out[160];

    limit_text(&l, "ada", out, sizeof(out));
    assert_string_equal(out, text);
    assert_string_equal(limit_word(&l), word);
}

static void words(void **state)
{
    (void)state;
    says((struct limit){.kind = LIMIT_QUEUE, .kept = true}, "queue_kept",
         "its queue starts jobs only while the program that submitted them runs: start that "
         "program again, or resume the queue");
    assert_false(limit_open(&(struct limit){.kind = LIMIT_QUEUE, .kept = true}));
    assert_true(limit_open(&(struct limit){.kind = LIMIT_QUEUE, .kept = true, .keepers = 1}));
    says((struct limit){.kind = LIMIT_QUEUE, .paused = true, .max = 2}, "queue_paused",
         "its queue is paused: resume it to let the job start");
    says((struct limit){.kind = LIMIT_QUEUE, .max = 1}, "queue_slots",
         "its queue is limited to 1 running job");
    says((struct limit){.kind = LIMIT_BATCH, .max = 4}, "batch_slots",
         "its batch is limited to 4 running jobs");
    says((struct limit){.kind = LIMIT_USER, .max = 3}, "user_slots",
         "user ada is limited to 3 running jobs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_more), cmocka_unit_test(words)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
