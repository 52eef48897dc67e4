/* cas_copy.c - gives a tree a second name
 *
 * The second tree has the same manifest, so a copy costs one hard link and no content is read.
 */
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
