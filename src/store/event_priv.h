/* event_priv.h - kinds of events as stored; append only, the numbers are on disk */
#pragma once
#include "model/job.h"

/* 0 … 31 are "job." and the state's name. */
#define EVENT_KIND_LIST(X)                                                                         \
    X(JOB_REMOVED, 32, "job.removed")                                                              \
    X(BATCH_SUBMITTED, 33, "batch.submitted")                                                      \
    X(QUEUE_PAUSED, 34, "queue.paused")                                                            \
    X(QUEUE_RESUMED, 35, "queue.resumed")                                                          \
    X(NODE_DRAINED, 36, "node.drained")                                                            \
    X(NODE_RESUMED, 37, "node.resumed")                                                            \
    X(REPORT_METRIC, 38, "report.metric")                                                          \
    X(REPORT_TAG, 39, "report.tag")                                                                \
    X(REPORT_ARTIFACT, 40, "report.artifact")                                                      \
    X(REPORT_EPOCH, 41, "report.epoch")                                                            \
    X(NOTE, 42, "note.added")                                                                      \
    X(PROJECT_DESCRIBED, 43, "project.described")                                                  \
    X(NODE_ADDED, 44, "node.added")                                                                \
    X(NODE_REMOVED, 45, "node.removed")                                                            \
    X(STUDY_CREATED, 46, "study.created")                                                          \
    X(STUDY_BEST, 47, "study.best")                                                                \
    X(STUDY_ENDED, 48, "study.ended")                                                              \
    X(STUDY_PAUSED, 49, "study.paused")                                                            \
    X(STUDY_RESUMED, 50, "study.resumed")                                                          \
    X(STUDY_REMOVED, 51, "study.removed")
enum event_kind {
    EVENT_JOB_STATE = 0, /* + enum job_state */
#define X(up, n, text) EVENT_##up = n,
    EVENT_KIND_LIST(X)
#undef X
};
/* Static text; "unknown" for a number from a newer program. */
const char *event_kind_name(int kind);
