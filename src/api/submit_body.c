/* submit_body.c - what is kept of the body of a submit request, and where
 *
 * Owns: the front of the body, where the texts that rows borrow lie one behind the other, and the
 * pages of what was read and is not kept.
 *
 * The elements of a list are read in order, and no more is kept of one than it is long: the front
 * never reaches what is still to be read.  100 000 trials of one command are 30 MB on the wire, of
 * which 27 say the same again.  The rest goes back to the system while the list is read, so that
 * the rows take its place and not more memory.
 */
#include "api/submit_parse.h"
#include <sys/mman.h>
#include <unistd.h>

/* Pages are given back after this many bytes were read: one system call for each job would cost
 * more. */
enum { RELEASE_STEP = 1 << 20 };

bool submit_in_body(const struct submit *x, const char *p)
{
    return p >= x->body && p < x->body + x->body_n;
}

char *submit_room(struct submit *x, size_t n)
{
    char *at = x->body + x->kept;

    x->kept += n;
    ASSERT(x->kept <= x->body_n);
    return at;
}

void submit_keep(struct submit *x, struct str *text)
{
    char *at;

    if (!text->n || !submit_in_body(x, text->p))
        return;
    at = submit_room(x, text->n);
    memmove(at, text->p, text->n);
    text->p = at;
}

/* madvise works on whole pages: both bounds are rounded inwards, because the pages at the edges may
 * hold bytes that are still needed. */
void submit_was_read(struct submit *x, const char *end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t read = (size_t)(end - x->body);
    uintptr_t from, to;

    if (read < x->released + RELEASE_STEP)
        return;
    from = ((uintptr_t)x->body + MAX(x->kept, x->released) + page - 1) & ~(page - 1);
    to = ((uintptr_t)x->body + read) & ~(page - 1);
    x->released = read;
    if (from < to)
        madvise((void *)from, to - from, MADV_DONTNEED); /* at worst they stay */
}
