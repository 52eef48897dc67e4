/* cas_copy.c - a tree under a second name: the same manifest, so it costs a link */
#include "archive/cas_priv.h"

int cas_copy_tree(struct cas *c, const char *from, const char *to, struct err *e)
{
    struct batch b = {0};
    struct manifest m;

    if (cas_check_name(to, e) < 0 || batch_open(&b, c, e) < 0)
        return -1;
    int rc = cas_read_manifest(c, from, &m, e);
    if (rc == 0) {
        rc = batch_commit(&b, to, &m, e);
        manifest_done(&m);
    }
    batch_done(&b);
    return rc < 0 ? err_wrap(e, "copying tree %s", from) : 0;
}
