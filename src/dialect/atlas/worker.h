/* worker.h - the process a job of Atlas begins as
 *
 * It runs under the supervisor in the job's place: fills the working directory, does what the start
 * script of the standard worker does, and turns into the job's own command.  So whatever happens to
 * the server meanwhile, the job goes on, and its log has everything from the first line.
 */
#pragma once
#include "cli/opt.h"

/* What it is told besides its words; the job does not see them: volumes it must warn of, one per
 * line, and the bytes of memory that it may use. */
#define ATLAS_UNMOUNTED_VARIABLE "BERTH_ATLAS_UNMOUNTED"
#define ATLAS_RAM_VARIABLE "BERTH_ATLAS_RAM"

/* argv: HOME ID MODE -- WORDS…, see translate.h.  Returns an exit status only when it failed. */
int atlas_worker(char **argv);

extern const struct command cmd_atlas_worker; /* which calls it */
