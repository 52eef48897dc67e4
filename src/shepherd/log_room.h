/* log_room.h - room for the first output of a run that has said nothing yet */
#pragma once
#include <stdbool.h>

/* Of one log.  `fd` is borrowed; -1 = none, or no file. */
struct log_room {
    int fd;
    bool taken; /* its first block can be written, whatever becomes of the disk */
};

void log_room_init(struct log_room *r, int fd);
/* Takes room for the first block of a log that is empty.  False: there is none, ask again later. */
bool log_room_take(struct log_room *r);
/* Does the log end where a full disk would have cut it off?  Whether the disk is full is another
 * question. */
bool log_room_cut(const struct log_room *r);
/* Gives back what was not written to.  Only when the run has ended. */
void log_room_return(struct log_room *r);
