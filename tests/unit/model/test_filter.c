/* test_filter.c - filters as trees (printed back in a plain form) and messages that point */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/util.h"
#include "model/filter.h"
#include <stdio.h>

static const int64_t NOW = INT64_C(1700000000000);

static void print(struct buf *b, const struct filter *f)
{
    static const char *const ops[] = {
        " and ", " or ", "not ", "=", "!=", "<", "<=", ">", ">=", "~"};
    static const char *const fields[] = {
        "id",      "name",    "state", "project", "user",   "batch", "exit",    "prio",   "attempt",
        "created", "started", "ended", "dur",     "reason", "tag.",  "metric.", "param.", "number"};

    if (f->op == FILTER_AND || f->op == FILTER_OR) {
        buf_addc(b, '(');
        print(b, f->left);
        buf_adds(b, ops[f->op]);
        print(b, f->right);
        buf_addc(b, ')');
    } else if (f->op == FILTER_NOT) {
        buf_adds(b, "not ");
        print(b, f->left);
    } else {
        buf_addf(b, "%s%s", fields[f->field], f->key ? f->key : "");
        buf_adds(b, f->op == FILTER_IN ? " in " : ops[f->op]);
        if (f->numeric)
            buf_addf(b, "#%.15g", f->number);
        for (size_t i = 0; !f->numeric && i < f->n_values; i++)
            buf_addf(b, "%s%s", i ? "|" : "", f->values[i]);
    }
}

static void reads(const char *text, const char *wanted)
{
    struct arena a = {0};
    struct filter *f = NULL;
    struct err e = {0};
    AUTO(buf) struct buf b;

    buf_init(&b, 1 << 20);
    if (filter_parse(str_of(text), NOW, &a, &f, &e) < 0)
        fail_msg("%s: %s", text, e.text);
    assert_non_null(f);
    print(&b, f);
    assert_string_equal(b.p, wanted);
    arena_done(&a);
}

static void refused(const char *text, const char *message)
{
    struct arena a = {0};
    struct filter *f = NULL;
    struct err e = {0};

    assert_int_equal(filter_parse(str_of(text), NOW, &a, &f, &e), -1);
    assert_null(f);
    if (!strstr(e.text, message))
        fail_msg("\"%s\" is not in \"%s\"", message, e.text);
    arena_done(&a);
}

static void the_example(void **state)
{
    (void)state;
    reads("state:failed and name~cnn and lr<0.1",
          "((state=failed and name~cnn) and param.lr<#0.1)");
}

static void grammar(void **state)
{
    (void)state;
    reads("name:a or name:b and name:c", "(name=a or (name=b and name=c))");
    reads("(name:a or name:b) and name:c", "((name=a or name=b) and name=c)");
    reads("not name:a and not (name:b)", "(not name=a and not name=b)");
    reads("NOT name=a AND name=b", "(not name=a and name=b)");
    reads("  name  =  a  ", "name=a");
    reads("name=and", "name=and");
    reads("android=1", "param.android=#1");
    reads("notes~x", "param.notes~x");
    reads("name:\"a b, (c)\"", "name=a b, (c)");
    reads("name:'it\\'s'", "name=it's");
    reads("name==a", "name=a");
}

static void lists(void **state)
{
    (void)state;
    reads("state:failed,lost", "state in failed|lost");
    reads("state:active", "state in queued|starting|running|stopping|held");
    reads("state!=Finished", "not state in succeeded|failed|cancelled|lost");
    reads("state:finished,queued", "(state in succeeded|failed|cancelled|lost or state in queued)");
    reads("state:FAILED, Lost", "state in failed|lost");
    reads("name:a,\"b c\"", "name in a|b c");
    reads("exit_code:1,2", "(exit=#1 or exit=#2)");
    reads("lr:0.1,0.2,adam", "((param.lr=#0.1 or param.lr=#0.2) or param.lr in adam)");
    reads("id:3,01ab", "(number=#3 or id in 01ab)");
}

static void fields(void **state)
{
    (void)state;
    reads("id:42", "number=#42");
    reads("id:01hx", "id=01hx");
    reads("id~hx", "id~hx");
    reads("id>100", "number>#100");
    reads("id!=7", "number!=#7");
    reads("number<=7", "number<=#7");
    reads("exit_code!=0", "exit!=#0");
    reads("priority>=-5", "prio>=#-5");
    reads("attempt>1", "attempt>#1");
    reads("duration>1h30m", "dur>#5400000");
    reads("tag.kind:best", "tag.kind=best");
    reads("tag.n<3", "tag.n<#3");
    reads("metric.loss<0.5", "metric.loss<#0.5");
    reads("metric.rss>=4G", "metric.rss>=#4294967296");
    reads("params.name:x", "param.name=x");
    reads("learning-rate>1e-3", "param.learning-rate>#0.001");
    reads("v=\"1\"", "param.v=1");
    reads("\"val/acc\">0.9", "param.val/acc>#0.9");
    reads("'top 5 %' >= 90 and metric.\"a b\"<4G",
          "(param.top 5 %>=#90 and metric.a b<#4294967296)");
    reads("\"state\":failed or tag.'my \\'tag'=x", "(param.state=failed or tag.my 'tag=x)");
    reads("\"metric.x\"=1", "param.metric.x=#1");
    reads("v~1", "param.v~1");
    reads("date<2024x", "param.date<2024x");
    reads("state!=failed", "state!=failed");
    reads("user:ann and project:p and batch:b and reason~memory",
          "(((user=ann and project=p) and batch=b) and reason~memory)");
}

static void times(void **state)
{
    (void)state;
    reads("created<2h", "created>#1699992800000");
    reads("created:2h", "created>=#1699992800000");
    reads("created>2h", "created<#1699992800000");
    reads("ended<=1d", "ended>=#1699913600000");
    reads("started>=2023-11-14T00:00:00Z", "started>=#1699920000000");
    reads("created>2023-11-14", "created>=#1700006400000");
    reads("created<2023-11-14", "created<#1699920000000");
    reads("created<=2023-11-14", "created<#1700006400000");
    reads("created:2023-11-14", "(created>=#1699920000000 and created<#1700006400000)");
    reads("created!=2023-11-14", "not (created>=#1699920000000 and created<#1700006400000)");
}

static void nothing(void **state)
{
    struct arena a = {0};
    struct filter *f = (struct filter *)&a;
    struct err e = {0};

    (void)state;
    assert_int_equal(filter_parse(STR(" \n"), NOW, &a, &f, &e), 0);
    assert_null(f);
}

static void messages(void **state)
{
    (void)state;
    refused("state:faild", "column 7: \"faild\" is not a state; did you mean \"failed\"?");
    refused("state:zzzzzzzz", "the states are queued");
    refused("state:activ", "did you mean \"active\"?");
    refused("failed", "column 1: \"failed\" needs an operator and a value, as in state:failed");
    refused("name~a state:failed", "column 8: expected \"and\" or \"or\"");
    refused("name~a and", "column 11: a condition is missing at the end");
    refused("name:", "column 6: a value is missing after \":\"");
    refused("(name:a", "column 1: this parenthesis is not closed");
    refused("name:a)", "column 7: this ) closes nothing");
    refused("name:\"a", "column 6: this quote is not closed");
    refused("name<a", "column 5: name has no order");
    refused("exit_code~1", "column 10: exit_code is no text to search in");
    refused("exit_code:x", "column 11: \"x\" is not a number");
    refused("duration>soon", "not a duration");
    refused("created>soon", "not a time");
    refused("name=a,b", "a list of values goes with \":\"");
    refused("\"a>1", "column 1: this quote is not closed");
    refused("metric.\"\">1", "a name is missing between the quotes");
    refused("foo.\"a\">1", "only tag. metric. and params. stand before a quoted name");
    refused("\"a\"", "needs an operator and a value");
    refused("tag.:x", "a name is missing after \"tag.\"");
    refused("metric.loss:x", "not a number");
    refused("=x", "expected a condition such as state:failed, not '='");
    refused("id>abc", "not a number");
}

static void bounded(void **state)
{
    char text[20000];
    size_t n = 0;

    (void)state;
    memset(text, '(', 40);
    snprintf(text + 40, 20, "a:1");
    refused(text, "nested deeper than 32 levels");
    for (int i = 0; i < 201; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%sa:1", i ? " or " : "");
    refused(text, "more than 200 conditions");
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    refused(text, "at most 16384 are allowed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example), cmocka_unit_test(grammar), cmocka_unit_test(lists),
        cmocka_unit_test(fields),      cmocka_unit_test(times),   cmocka_unit_test(nothing),
        cmocka_unit_test(messages),    cmocka_unit_test(bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
