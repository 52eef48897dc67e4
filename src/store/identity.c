/* identity.c - does this database belong to this home?
 *
 * Owns: the id that a home and its database share.  The database has it as the fact `home.id`, the
 * home as the file `id`, which the host writes.  A home that has an id had a database, so a missing
 * or empty one is not a new home: somebody removed it, and starting without a word would show zero
 * jobs and give out their numbers again.
 *
 * A database without an id is from before there were ids; it gets that of the home.
 */
#include "base/rand.h"
#include "base/util.h"
#include "store/identity_priv.h"
#include <sys/stat.h>

#define FACT_HOME_ID "home.id"

/* Is there nothing in the file, or no file? */
static bool nothing_there(const char *path)
{
    struct stat st;

    return stat(path, &st) < 0 || st.st_size == 0;
}

int identity_look(const char *path, const struct store_home *home, struct err *e)
{
    bool nothing = nothing_there(path);

    if (!home)
        return 0;
    if (home->fresh && !nothing)
        return err_set(e, ERR_INVALID,
                       "%s is there, so --new-database would hide its jobs; move the file away "
                       "first, or start without --new-database",
                       path);
    if (home->expect && nothing && !home->fresh)
        return err_set(e, ERR_INVALID,
                       "the job database %s is missing or empty, but this home had one: bring it "
                       "back (berth restore DIR), or start afresh with `berth serve "
                       "--new-database`",
                       path);
    return 0;
}

/* The id in the database; "" when it has none yet. */
static int read_id(struct db *d, char out[STORE_ID_MAX], struct err *e)
{
    int64_t facts;

    out[0] = 0;
    if (db_int(d, "SELECT count(*) FROM sqlite_schema WHERE name = 'fact'", &facts, e) < 0)
        return -1;
    if (!facts)
        return 0;
    sqlite3_stmt *st =
        db_query(d, e, "SELECT value FROM fact WHERE name = ?1", TEXT(STR(FACT_HOME_ID)));
    int rc = db_step(d, st, e);
    if (rc == 1) {
        struct str id = column_str(st, 0);
        snprintf(out, STORE_ID_MAX, "%.*s", (int)MIN(id.n, (size_t)STORE_ID_MAX - 1), id.p);
        sqlite3_reset(st);
    }
    return rc < 0 ? -1 : 0;
}

int identity_check(struct db *d, struct store_home *home, struct err *e)
{
    int64_t tables;

    if (!home)
        return 0;
    if (read_id(d, home->id, e) < 0 ||
        db_int(d, "SELECT count(*) FROM sqlite_schema", &tables, e) < 0)
        return -1;
    if (home->expect && !tables && !home->fresh)
        return err_set(e, ERR_INVALID,
                       "the job database %s has no tables, but this home had jobs: bring it back "
                       "(berth restore DIR), or remove it and run `berth serve --new-database`",
                       d->path);
    if (home->expect && home->id[0] && strcmp(home->id, home->expect) != 0)
        return err_set(e, ERR_INVALID,
                       "%s is the database of another home (%.8s, not %.8s): put the right one "
                       "back, or remove the file `id` beside it to keep this one",
                       d->path, home->id, home->expect);
    return 0;
}

int identity_record(struct db *d, struct store_home *home, struct err *e)
{
    uint8_t raw[(STORE_ID_MAX - 1) / 2];

    if (!home || home->id[0])
        return 0;
    if (home->expect) {
        snprintf(home->id, sizeof(home->id), "%s", home->expect);
    } else {
        random_bytes(raw, sizeof(raw));
        for (size_t i = 0; i < sizeof(raw); i++)
            snprintf(home->id + 2 * i, 3, "%02x", raw[i]);
    }
    return db_run(d, e, "INSERT INTO fact(name, value) VALUES(?1, ?2)", TEXT(STR(FACT_HOME_ID)),
                  TEXT(str_of(home->id)));
}
