/* copy.c - a copy of a database that nobody writes to, as backups have it */
#include "base/util.h"
#include "store/store_priv.h"

struct store_copy {
    struct db db;
};

int store_copy_open(struct store_copy **out, const char *path, struct err *e)
{
    struct store_copy *c = xcalloc(1, sizeof(*c));

    return HAND_OUT(db_open(&c->db, path, DB_READER, e), out, c, store_copy_close);
}

void store_copy_close(struct store_copy *c)
{
    if (!c)
        return;
    db_done(&c->db);
    free(c);
}

bool store_copy_has_job(struct store_copy *c, uint64_t job)
{
    struct err ignored;
    sqlite3_stmt *st = db_query(&c->db, &ignored, "SELECT 1 FROM job WHERE seq = ?1", INT(job));
    bool found = db_step(&c->db, st, &ignored) == 1;

    if (found)
        sqlite3_reset(st);
    return found;
}

bool store_copy_run_ended(struct store_copy *c, struct run_key key)
{
    struct err ignored;
    bool ended = false;
    int32_t why;
    sqlite3_stmt *st = db_query(
        &c->db, &ignored, "SELECT why FROM run WHERE job = ?1 AND run = ?2 AND why IS NOT NULL",
        INT(key.job), INT(key.run));

    if (db_step(&c->db, st, &ignored) == 1) {
        db_row(st, COL(&why));
        ended = !run_end_is_lost((enum run_end)why) && why != RUN_END_NEVER_RAN;
        sqlite3_reset(st);
    }
    return ended;
}
