/* Ports of jobs: claimed at submission, open while one runs, given back at the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/util.h"
#include "host/job_ports.h"
#include "io/forward.h"
#include "io/loop.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>

/* The controller, as far as this room asks it. */
static struct {
    bool active;
    uint32_t run;
} job_7;
struct core;
bool core_job_active(const struct core *c, uint64_t job, struct run_key *out);
bool core_job_active(const struct core *c, uint64_t job, struct run_key *out)
{
    (void)c;
    if (job != 7 || !job_7.active)
        return false;
    if (out)
        *out = (struct run_key){job, job_7.run};
    return true;
}

static int free_port(void)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(sa);
    AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&sa, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &n), 0);
    return ntohs(sa.sin_port);
}

static bool answers(int port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    AUTO_FD fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0;
}

static int setup(void **state)
{
    log_setup(LOG_ERROR_, false, 2);
    *state = loop_new();
    job_7.active = false;
    job_7.run = 0;
    return 0;
}

static int teardown(void **state)
{
    loop_free(*state);
    return 0;
}

static void the_life_of_a_port(void **state)
{
    struct job_ports *d = job_ports_new(*state, NULL, NULL, "127.0.0.1");
    struct port_pair p[] = {{free_port(), 6006}, {free_port(), 7007}};
    struct err e = {0};
    uint64_t claim, other;

    assert_int_equal(job_ports_claim(d, p, 2, &claim, &e), 0);
    assert_int_equal(job_ports_count(d), 2);
    job_ports_look(d); /* a claim is not looked at: its job is on its way to disk */
    assert_int_equal(job_ports_count(d), 2);
    assert_false(port_is_free("127.0.0.1", p[0].node));
    assert_int_equal(job_ports_claim(d, p + 1, 1, &other, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    char number[8];
    snprintf(number, sizeof(number), "%d", p[1].node);
    assert_non_null(strstr(e.text, number));
    job_ports_assign(d, claim, 7);
    job_7.active = true;
    job_ports_look(d); /* it waits */
    assert_false(answers(p[0].node));
    job_7.run = 1;
    job_ports_look(d);
    assert_true(answers(p[0].node));
    assert_true(answers(p[1].node));
    job_7.run = 0; /* preempted: held, but not open */
    job_ports_look(d);
    assert_false(answers(p[0].node));
    assert_false(port_is_free("127.0.0.1", p[0].node));
    job_7.run = 2;
    job_ports_start(d, (struct run_key){7, 2}, p, 2);
    assert_true(answers(p[1].node));
    assert_int_equal(job_ports_count(d), 2);
    job_7.active = false;
    job_ports_look(d);
    assert_int_equal(job_ports_count(d), 0);
    assert_true(port_is_free("127.0.0.1", p[0].node));
    job_ports_free(d);
}

static void all_or_none(void **state)
{
    struct job_ports *d = job_ports_new(*state, NULL, NULL, "127.0.0.1");
    struct forward *taken = NULL;
    struct port_pair p[] = {{free_port(), 6006}, {free_port(), 7007}};
    struct err e = {0};
    uint64_t claim;

    assert_int_equal(forward_hold(&taken, *state, "127.0.0.1", p[1].node, &e), 0);
    assert_int_equal(job_ports_claim(d, p, 2, &claim, &e), -1);
    assert_int_equal(job_ports_count(d), 0);
    assert_true(port_is_free("127.0.0.1", p[0].node));
    forward_free(taken);
    assert_int_equal(job_ports_claim(d, p, 2, &claim, &e), 0);
    job_ports_drop(d, claim); /* the submission was refused after all */
    assert_true(port_is_free("127.0.0.1", p[1].node));
    job_ports_free(d);
}

static void a_port_that_leads_to_itself(void **state)
{
    struct job_ports *d = job_ports_new(*state, NULL, NULL, "127.0.0.1");
    int port = free_port();
    struct port_pair p = {port, port};
    struct err e = {0};
    uint64_t claim, other;

    assert_int_equal(job_ports_claim(d, &p, 1, &claim, &e), 0);
    job_ports_assign(d, claim, 7);
    job_7.active = true;
    job_7.run = 1;
    job_ports_look(d);
    assert_true(port_is_free("127.0.0.1", port)); /* the job itself listens there */
    assert_int_equal(job_ports_claim(d, &p, 1, &other, &e), -1);
    job_ports_free(d);
}

static void lost_ports_are_tried_again(void **state)
{
    struct job_ports *d = job_ports_new(*state, NULL, NULL, "127.0.0.1");
    struct forward *taken = NULL;
    struct port_pair p = {free_port(), 6006};
    struct err e = {0};

    assert_int_equal(forward_hold(&taken, *state, "127.0.0.1", p.node, &e), 0);
    job_7.active = true;
    job_7.run = 1;
    job_ports_start(d, (struct run_key){7, 1}, &p, 1); /* after a restart: somebody was faster */
    assert_int_equal(job_ports_count(d), 1);
    assert_false(answers(p.node));
    forward_free(taken);
    job_ports_look(d);
    assert_true(answers(p.node));
    job_ports_free(d);
}

static void pairs(void **state)
{
    struct port_pair p;

    (void)state;
    assert_true(port_pair_parse(STR("31346:6006"), &p));
    assert_int_equal(p.node, 31346);
    assert_int_equal(p.container, 6006);
    assert_false(port_pair_parse(STR("31346"), &p));
    assert_false(port_pair_parse(STR("0:1"), &p));
    assert_false(port_pair_parse(STR("1:65536"), &p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_life_of_a_port, setup, teardown),
        cmocka_unit_test_setup_teardown(all_or_none, setup, teardown),
        cmocka_unit_test_setup_teardown(a_port_that_leads_to_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(lost_ports_are_tried_again, setup, teardown),
        cmocka_unit_test(pairs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
