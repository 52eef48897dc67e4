/* bundle.c - how large a bundle will be, and the bundle itself */
#include "archive/bundle.h"
#include "archive/pack_priv.h"
#include "archive/walk_priv.h"
#include "base/util.h"

/* Only the walk runs: no file is opened, so the estimate is quick even for a large directory. */
int bundle_estimate(const char *dir, const struct ignore *ig, const struct archive_watch *w,
                    struct bundle_size *out, struct err *e)
{
    struct archive_watch quiet = w ? *w : (struct archive_watch){0};
    struct walk_entry at;
    struct watch watch;
    struct walk *walk;
    int rc;

    quiet.warn = NULL; // what is left out is told when it is packed
    watch_init(&watch, &quiet);
    if (walk_open(dir, ig, &watch, &walk, e) < 0)
        return -1;
    while ((rc = walk_next(walk, &at, e)) > 0)
        if ((rc = watch_add(&watch, S_ISREG(at.st.st_mode) ? at.st.st_size : 0, 1, e)) < 0)
            break;
    walk_free(walk);
    if (rc == 0)
        *out = (struct bundle_size){watch.bytes, watch.entries};
    return rc;
}

int bundle_write(const struct bundle *b, bundle_sink_fn *sink, void *sink_ctx,
                 const struct archive_watch *w, struct err *e)
{
    struct pack_source *source = pack_parts_new(b, e);
    struct packer *p;
    int rc;

    if (!source || packer_new(source, w, sink, sink_ctx, &p, e) < 0)
        return -1;
    while ((rc = packer_step(p, e)) > 0)
        ;
    packer_free(p);
    return rc;
}
