/* track.h - requests about experiments: tags, notes, descriptions by hand; runs that are not ours
 *
 * As with all requests, `done` comes after the commit, or at once with an error.  Of other people's
 * jobs nobody but an admin may change anything (ERR_DENIED); projects are everybody's.
 */
#pragma once
#include "core/core.h"

enum {
    TRACK_NAME_MAX = 200,       /* bytes of the name of a metric, tag, parameter, artifact */
    TRACK_TEXT_MAX = 4096,      /* of a tag's value or a path */
    TRACK_PARAM_MAX = 32 << 10, /* of the JSON of a parameter */
    TRACK_NOTE_MAX = 64 << 10,  /* of a note or a description */
    TRACK_AUTHOR_MAX = 200,
};

/* Any job, finished or not.  A tag set again changes its value. */
void core_tag(struct core *c, uint64_t job, struct str name, struct str value,
              const struct caller *who, core_act_fn done, void *arg);
/* `already` counts when there was no such job; a tag that is not there is no error. */
void core_untag(struct core *c, uint64_t job, struct str name, const struct caller *who,
                core_act_fn done, void *arg);
/* About a job, or with job 0 about a project (which comes into being if need be).  An empty author
 * is who->user. */
void core_note(struct core *c, struct str project, uint64_t job, struct str text, struct str author,
               const struct caller *who, core_act_fn done, void *arg);
/* Markdown; empty takes it away. */
void core_describe(struct core *c, struct str project, struct str text, const struct caller *who,
                   core_act_fn done, void *arg);
