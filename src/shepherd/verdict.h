/* verdict.h - how a container ended, where its process cannot say so by its exit status */
#pragma once
#include "shepherd/journal.h"

/* Reads what the process of a container left in `run_dir` and puts it into *end.  The file is the
 * user's: whatever it says, it can only be about this run. */
void verdict_read(const char *run_dir, struct journal_record *end);
