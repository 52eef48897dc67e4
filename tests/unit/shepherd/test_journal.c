/* test_journal.c - records, damage, and reading on behind it */
#include "base/hash.h"
#include "base/rand.h"
#include "base/util.h"
#include "shepherd/journal.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static int temp_file(void)
{
    char path[] = "/tmp/berth-journal-XXXXXX";
    int fd = mkostemp(path, O_APPEND | O_CLOEXEC);

    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

static struct journal_record record(uint64_t job, enum journal_kind kind)
{
    return (struct journal_record){.job = job, .run = 1, .kind = (uint8_t)kind};
}

static void put(int fd, uint64_t job, enum journal_kind kind)
{
    struct journal_record r = record(job, kind);

    assert_int_equal(journal_append(fd, &r), 0);
}

static void test_append_and_read(void **state)
{
    AUTO_FD fd = temp_file();
    struct journal_reader r;
    struct journal_record rec;

    (void)state;
    journal_reader_init(&r, fd, 0);
    assert_int_equal(journal_read(&r, &rec, NULL), 0);
    for (uint64_t job = 1; job <= 3000; job++) /* more than one chunk */
        put(fd, job, JOURNAL_ENDED);
    for (uint64_t job = 1; job <= 3000; job++) {
        assert_int_equal(journal_read(&r, &rec, NULL), 1);
        assert_int_equal(rec.job, job);
    }
    assert_int_equal(journal_read(&r, &rec, NULL), 0);
    assert_int_equal(r.offset, 3000 * JOURNAL_RECORD_BYTES);
    put(fd, 9, JOURNAL_STARTED);
    assert_int_equal(journal_read(&r, &rec, NULL), 1);
    assert_int_equal(rec.kind, JOURNAL_STARTED);
    assert_int_equal(journal_read(&r, &rec, NULL), 0);
    assert_int_equal(r.skipped, 0);
    journal_reader_done(&r);
}

static size_t read_all(int fd, struct journal_reader *r)
{
    struct journal_record rec;
    size_t n = 0;

    journal_reader_init(r, fd, 0);
    while (journal_read(r, &rec, NULL) == 1)
        n++;
    return n;
}

static void test_damage_is_skipped(void **state)
{
    struct rng rng;

    (void)state;
    rng_seed(&rng, 3);
    for (int round = 0; round < 300; round++) {
        AUTO_FD fd = temp_file();
        size_t good = 0, noise_n = 0;
        for (int i = 0; i < 20; i++) {
            if (rng_below(&rng, 2)) {
                put(fd, 1 + rng_below(&rng, 100), JOURNAL_ENDED);
                good++;
                continue;
            }
            char noise[300];
            size_t n = rng_below(&rng, sizeof(noise));
            for (size_t k = 0; k < n; k++)
                noise[k] = rng_below(&rng, 3) ? (char)rng_next(&rng) : "BRJ1"[k % 4];
            assert_int_equal(write(fd, noise, n), n);
            noise_n += n;
        }
        put(fd, 7, JOURNAL_ENDED);
        struct journal_reader r;
        assert_int_equal(read_all(fd, &r), good + 1);
        assert_int_equal(r.skipped, noise_n);
        assert_int_equal(r.good_end, r.offset);
        journal_reader_done(&r);
    }
}

static void test_garbage_tail(void **state)
{
    static const char zeros[5000];

    (void)state;
    for (size_t n = 1; n < sizeof(zeros); n += 37) {
        AUTO_FD fd = temp_file();
        struct journal_reader r;
        put(fd, 1, JOURNAL_STARTED);
        put(fd, 1, JOURNAL_ENDED);
        assert_int_equal(write(fd, zeros, n), n);
        assert_int_equal(read_all(fd, &r), 2);
        assert_int_equal(r.good_end, 2 * JOURNAL_RECORD_BYTES);
        journal_reader_done(&r);
    }
}

static void test_half_a_record_becomes_whole(void **state)
{
    AUTO_FD fd = temp_file(), scratch = temp_file();
    struct journal_reader r;
    struct journal_record rec;
    char bytes[JOURNAL_RECORD_BYTES];

    (void)state;
    put(scratch, 5, JOURNAL_ENDED);
    assert_int_equal(pread(scratch, bytes, sizeof(bytes), 0), sizeof(bytes));
    journal_reader_init(&r, fd, 0);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        assert_int_equal(journal_read(&r, &rec, NULL), 0);
        assert_int_equal(write(fd, bytes + i, 1), 1);
    }
    assert_int_equal(journal_read(&r, &rec, NULL), 1);
    assert_int_equal(rec.job, 5);
    assert_int_equal(r.skipped, 0);
    journal_reader_done(&r);
}

static void test_every_flipped_bit_is_seen(void **state)
{
    AUTO_FD fd = temp_file();
    unsigned char bytes[JOURNAL_RECORD_BYTES];
    struct journal_record rec;
    size_t skip;

    (void)state;
    put(fd, 5, JOURNAL_ENDED);
    assert_int_equal(pread(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    assert_int_equal(journal_find(bytes, sizeof(bytes), &rec, &skip), JOURNAL_RECORD_BYTES);
    for (size_t i = 0; i < sizeof(bytes) * 8; i++) {
        bytes[i / 8] ^= (unsigned char)(1 << i % 8);
        assert_int_equal(journal_find(bytes, sizeof(bytes), &rec, &skip), 0);
        bytes[i / 8] ^= (unsigned char)(1 << i % 8);
    }
}

static void test_scan(void **state)
{
    AUTO_FD fd = temp_file();
    struct journal_record started = {0};

    (void)state;
    for (uint64_t job = 1; job <= 200; job++) {
        put(fd, job, JOURNAL_STARTED);
        put(fd, job, JOURNAL_ENDED);
        if (job % 50 == 0)
            assert_int_equal(write(fd, "noise", 5), 5);
    }
    put(fd, 300, JOURNAL_VOID);
    int both = 1 << JOURNAL_STARTED | 1 << JOURNAL_ENDED;
    assert_int_equal(journal_scan(fd, 0, (struct run_key){150, 1}, &started), both);
    assert_int_equal(started.job, 150);
    assert_int_equal(journal_scan(fd, 0, (struct run_key){150, 2}, NULL), 0);
    assert_int_equal(journal_scan(fd, 128, (struct run_key){1, 1}, NULL), 1 << JOURNAL_ENDED);
    assert_int_equal(journal_scan(fd, 256, (struct run_key){1, 1}, NULL), 0);
    assert_int_equal(journal_scan(fd, 1 << 30, (struct run_key){1, 1}, NULL), 0);
    assert_int_equal(journal_scan(fd, 0, (struct run_key){300, 1}, NULL), 1 << JOURNAL_VOID);
    assert_int_equal(journal_scan(-1, 0, (struct run_key){300, 1}, NULL), -1);
}

/* One number, two jobs: the records of one are not those of the other. */
static void test_tags(void **state)
{
    AUTO_FD fd = temp_file();
    struct journal_record old = record(4, JOURNAL_ENDED), new = record(4, JOURNAL_STARTED), rec;
    struct journal_reader r;

    (void)state;
    new.tag = 0x1f3a9c2e;
    assert_int_equal(journal_append(fd, &old), 0);
    assert_int_equal(journal_append(fd, &new), 0);
    assert_int_equal(journal_scan(fd, 0, (struct run_key){4, 1, 0}, NULL), 1 << JOURNAL_ENDED);
    assert_int_equal(journal_scan(fd, 0, (struct run_key){4, 1, new.tag}, NULL),
                     1 << JOURNAL_STARTED);
    assert_int_equal(journal_scan(fd, 0, (struct run_key){4, 1, 7}, NULL), 0);
    journal_reader_init(&r, fd, 0);
    assert_int_equal(journal_read(&r, &rec, NULL), 1);
    assert_true(run_key_eq(journal_record_key(&rec), (struct run_key){4, 1, 0}));
    assert_int_equal(journal_read(&r, &rec, NULL), 1);
    assert_true(run_key_eq(journal_record_key(&rec), (struct run_key){4, 1, new.tag}));
    assert_int_equal(journal_read(&r, &rec, NULL), 0);
    journal_reader_done(&r);
}

/* A record as earlier versions wrote it: "BRJ1", and a name of 40 bytes where the tag is now. */
static void test_records_of_earlier_versions(void **state)
{
    static const char name[] = "/home/ada/vision/experiments/train_v2.py";
    struct journal_record r = record(4, JOURNAL_ENDED), rec;
    char bytes[JOURNAL_RECORD_BYTES];
    size_t skip;

    (void)state;
    _Static_assert(sizeof(name) - 1 == 40, "a full name");
    r.magic = JOURNAL_MAGIC_PLAIN;
    memcpy(bytes, &r, sizeof(bytes));
    memcpy(bytes + JOURNAL_RECORD_BYTES - 40, name, 40);
    r.crc = crc32c(0, bytes + 8, sizeof(bytes) - 8);
    memcpy(bytes + 4, &r.crc, sizeof(r.crc));
    assert_int_equal(journal_find(bytes, sizeof(bytes), &rec, &skip), JOURNAL_RECORD_BYTES);
    assert_int_equal(rec.tag, 0);
    assert_memory_equal(rec.name, "...da/vision/experiments/train_v2.py", JOURNAL_NAME_MAX);
    bytes[3] = '2'; /* the other form, but not its checksum */
    assert_int_equal(journal_find(bytes, sizeof(bytes), &rec, &skip), 0);
}

static void test_many_writers(void **state)
{
    AUTO_FD fd = temp_file();
    struct journal_reader r;

    (void)state;
    for (int i = 0; i < 4; i++) {
        if (fork() != 0)
            continue;
        for (uint64_t k = 1; k <= 500; k++)
            put(fd, k, JOURNAL_ENDED);
        _exit(0);
    }
    while (wait(NULL) > 0)
        ;
    assert_int_equal(read_all(fd, &r), 2000);
    assert_int_equal(r.skipped, 0);
    journal_reader_done(&r);
}

static void test_names_and_texts(void **state)
{
    char name[JOURNAL_FILE_MAX], text[160];
    uint32_t n;
    struct journal_record r = record(1, JOURNAL_ENDED);

    (void)state;
    journal_file_name(7, name);
    assert_string_equal(name, "journal-00000007");
    assert_true(journal_file_parse(name, &n));
    assert_int_equal(n, 7);
    assert_false(journal_file_parse("journal-00000000", &n));
    assert_false(journal_file_parse("journal-7", &n));
    assert_false(journal_file_parse("journal-99999999999", &n));
    assert_false(journal_file_parse("journal--0000007", &n));
    assert_false(journal_file_parse("sock", &n));
    r.stage = START_EXEC;
    r.sys = ENOENT;
    journal_set_name(&r, "pythn");
    journal_failure_text(&r, text, sizeof(text));
    assert_string_equal(text, "command not found: pythn");
    r.stage = START_CWD;
    r.sys = EACCES;
    journal_set_name(&r, "/a/very/long/path/that/does/not/fit/into/the/record/at/all");
    journal_failure_text(&r, text, sizeof(text));
    assert_string_equal(text, "cannot enter the working directory "
                              "...es/not/fit/into/the/record/at/all: Permission denied");
    r.stage = 99;
    journal_failure_text(&r, text, sizeof(text));
    assert_string_equal(text, "could not start: Permission denied");
}

static void test_reserve(void **state)
{
    AUTO_FD fd = temp_file();
    struct stat st;

    (void)state;
    if (journal_reserve(fd, 1 << 20) < 0)
        skip();
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_true(st.st_blocks >= (1 << 20) / 512);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append_and_read),
        cmocka_unit_test(test_damage_is_skipped),
        cmocka_unit_test(test_garbage_tail),
        cmocka_unit_test(test_half_a_record_becomes_whole),
        cmocka_unit_test(test_every_flipped_bit_is_seen),
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_records_of_earlier_versions),
        cmocka_unit_test(test_many_writers),
        cmocka_unit_test(test_names_and_texts),
        cmocka_unit_test(test_reserve),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
