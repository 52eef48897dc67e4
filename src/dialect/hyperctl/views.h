/* views.h - five pictures of a batch as data: status, last durations, histogram, durations over
 * time, jobs per node */
#pragma once
#include "dialect/hyperctl/batch.h"

/* All three are at least 1. */
struct hyper_view_conf {
    size_t tail;      /* the last so many ended jobs */
    size_t bins;      /* of the histogram, of equal width */
    size_t time_bins; /* of the durations over time, of equal count */
};
enum { HYPER_TAIL = 100, HYPER_BINS = 10, HYPER_TAIL_MAX = 100000, HYPER_BINS_MAX = 1000 };
/* {"status": {…}, "tail": […], "histogram": […], "timeline": […], "nodes": […]}; yours. */
struct json *hyper_views_json(const struct hyper_batch *b, const struct hyper_view_conf *c);
