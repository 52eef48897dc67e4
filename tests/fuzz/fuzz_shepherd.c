/* fuzz_shepherd.c - what the shepherd and the daemon read of each other: frames and journals
 *
 * The first byte chooses.  Frames are decoded as the shepherd does, and a START that is accepted
 * must survive writing and reading again.  Journals are read from a file, in one go and from a
 * random offset, and must never yield a record that does not check out.
 */
#include "../unit/shepherd/run_start_equal.h"
#include "base/util.h"
#include "shepherd/journal.h"
#include "shepherd/proto.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_again(const struct proto_start *s)
{
    struct buf b;
    struct proto_start again = {0};
    struct frame_head head;
    struct str body;

    buf_init(&b, PROTO_FRAME_MAX + 1);
    ASSERT(proto_put_start(&b, s));
    ASSERT(proto_next(buf_str(&b), &head, &body) == 1);
    ASSERT(proto_get_start(body, &again));
    ASSERT(again.offset == s->offset && run_start_equal(&again.run, &s->run));
    proto_start_done(&again);
    buf_done(&b);
}

static void frames(struct str in)
{
    struct proto_start start = {0};
    struct frame_head head;
    struct proto_op op;
    struct str body;

    while (proto_next(in, &head, &body) == 1) {
        ASSERT(head.n <= in.n && body.p + body.n <= in.p + in.n);
        if (head.type == PROTO_START) {
            if (proto_get_start(body, &start))
                check_again(&start);
        } else {
            proto_get_op(body, &op);
        }
        in.p += head.n;
        in.n -= head.n;
    }
    proto_start_done(&start);
}

static void journal(const uint8_t *data, size_t n, uint64_t from)
{
    AUTO_FD fd = memfd_create("journal", MFD_CLOEXEC);
    struct journal_reader r;
    struct journal_record rec;
    char text[200];
    uint64_t records = 0;

    if (fd < 0 || write(fd, data, n) != (ssize_t)n)
        return;
    journal_reader_init(&r, fd, from);
    while (journal_read(&r, &rec, NULL) == 1) {
        ASSERT(r.offset <= n && (rec.magic == JOURNAL_MAGIC_TAGGED || !rec.tag));
        journal_failure_text(&rec, text, sizeof(text));
        ASSERT(journal_scan(fd, from, journal_record_key(&rec), NULL) > 0);
        records++;
    }
    if (from < n)
        ASSERT(r.offset <= n && r.skipped + records * JOURNAL_RECORD_BYTES == r.offset - from);
    journal_reader_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint32_t generation;
    char name[64];

    if (n < 1)
        return 0;
    if (data[0] % 3 == 0) {
        AUTO_FREE char *exact = xmalloc(n); /* reads past the end are seen */
        memcpy(exact, data + 1, n - 1);
        frames((struct str){exact, n - 1});
    } else if (data[0] % 3 == 1) {
        journal(data + 1, n - 1, data[0] / 3);
    } else {
        snprintf(name, sizeof(name), "%.*s", (int)MIN(n - 1, 60), (const char *)data + 1);
        journal_file_parse(name, &generation);
    }
    return 0;
}
