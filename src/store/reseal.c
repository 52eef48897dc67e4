/* reseal.c - secrets that older programs stored in the clear are sealed, once
 *
 * Owns: the fact `secrets.sealed`, which says that no clear value is left in the file.
 *
 * Values lie in three tables (specs, schedules, hooks) and in what SQLite leaves behind: free
 * pages, gaps in pages in use, the write-ahead log.  So the rows are rewritten in short
 * transactions, then VACUUM writes every page anew, and a checkpoint cuts the log to nothing.  The
 * fact comes last: a crash before it repeats the steps, and rows that are sealed by then are passed
 * over.  The caller has the database for itself.
 *
 * Rows without secrets stay as they are (spec.sealed is NULL), so a long history costs one reading.
 */
#include "base/util.h"
#include "base/vec.h"
#include "model/vault.h"
#include "store/reseal_priv.h"
#include <string.h>

#define FACT_SEALED "secrets.sealed"
enum { ROWS_AT_ONCE = 1000 }; /* specs of a transaction: some 4 MB with usual environments */

/* One row that has to change; text and sealed are owned, sealed NULL = the table has no such
 * column.
 */
struct reseal_row {
    uint64_t seq;
    char *text, *sealed;
};
struct reseal_rows {
    VEC(struct reseal_row) list;
};

static void reseal_rows_done(struct reseal_rows *r)
{
    for (size_t i = 0; i < r->list.n; i++) {
        free(r->list.p[i].text);
        free(r->list.p[i].sealed);
    }
    vec_done(&r->list);
}

/* ---- what a row becomes; *out.text NULL = it has no secret ---- */

/* A spec that cannot be read could not start either: it stays as it is. */
static struct reseal_row sealed_spec(const struct vault *v, uint64_t seq, struct str body)
{
    AUTO(json) struct json *form = NULL, *hidden = NULL;
    struct err ignored = {0};

    if (json_parse(body, "spec", &form, &ignored) < 0 ||
        vault_seal_form(v, form, &hidden, &ignored) < 0 || !hidden)
        return (struct reseal_row){.seq = seq};
    return (struct reseal_row){seq, json_text(form), json_text(hidden)};
}

/* Dialects have a form of their own, which the caller knows. */
static struct reseal_row sealed_schedule(const struct store_seal *how, uint64_t seq,
                                         struct str text)
{
    AUTO(json) struct json *def = NULL;
    struct reseal_row row = {.seq = seq};
    struct err ignored = {0};

    if (strstr(text.p, "\"sealed\":") || json_parse(text, "schedule", &def, &ignored) < 0)
        return row;
    if (json_has(def, "dialect")) {
        if (how->schedule)
            how->schedule(how->arg, def);
    } else {
        struct json *job = json_copy(json_get(def, "job"));
        vault_seal_tree(how->vault, job, &ignored);
        json_set_take(def, "job", job);
    }
    row.text = json_text(def);
    if (!strstr(row.text, "\"sealed\":")) {
        free(row.text);
        row.text = NULL;
    }
    return row;
}

static struct reseal_row sealed_hook(const struct vault *v, uint64_t seq, struct str secret)
{
    if (!secret.n || vault_is_sealed(secret))
        return (struct reseal_row){.seq = seq};
    return (struct reseal_row){.seq = seq, .text = vault_seal_text(v, VAULT_OF_HOOK, secret)};
}

/* ---- the tables ---- */

/* One transaction.  Reading is over by now: a row that grows may move under a reader. */
static int reseal_write(struct db *d, const char *sql, const struct reseal_rows *r, struct err *e)
{
    if (!r->list.n)
        return 0;
    if (db_exec(d, "BEGIN IMMEDIATE", e) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < r->list.n && rc == 0; i++) {
        const struct reseal_row *x = &r->list.p[i];
        rc = db_run(d, e, sql, INT(x->seq), TEXT(str_of(x->text)),
                    TEXT(str_of(x->sealed ? x->sealed : "")));
    }
    if (rc == 0 && db_exec(d, "COMMIT", e) == 0) {
        sqlite3_wal_checkpoint_v2(d->h, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        return 0;
    }
    if (!sqlite3_get_autocommit(d->h))
        sqlite3_exec(d->h, "ROLLBACK", NULL, NULL, NULL);
    return -1;
}

/* At most ROWS_AT_ONCE specs behind *after, which becomes the last of them; 1 = there may be more.
 */
static int reseal_some_specs(struct db *d, struct store_seal *how, uint64_t *after, struct err *e)
{
    struct reseal_rows rows = {0};
    sqlite3_stmt *st = db_query(d, e,
                                "SELECT seq, body FROM spec WHERE seq > ?1 AND sealed IS NULL"
                                " ORDER BY seq LIMIT ?2",
                                INT(*after), INT(ROWS_AT_ONCE));
    size_t seen = 0;
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        struct reseal_row x = sealed_spec(how->vault, column_u64(st, 0), column_str(st, 1));
        *after = x.seq;
        seen++;
        if (x.text)
            vec_push(&rows.list, x);
    }
    if (rc == 0)
        rc = reseal_write(d, "UPDATE spec SET body = ?2, sealed = ?3 WHERE seq = ?1", &rows, e);
    if (rc == 0)
        how->sealed += rows.list.n;
    reseal_rows_done(&rows);
    return rc < 0 ? -1 : seen == ROWS_AT_ONCE;
}

/* Schedules and hooks are few. */
static int reseal_small_tables(struct db *d, struct store_seal *how, struct err *e)
{
    struct reseal_rows defs = {0}, hooks = {0};
    sqlite3_stmt *st = db_query(d, e, "SELECT seq, def FROM schedule");
    int rc;

    while ((rc = db_step(d, st, e)) == 1) {
        struct reseal_row x = sealed_schedule(how, column_u64(st, 0), column_str(st, 1));
        if (x.text)
            vec_push(&defs.list, x);
    }
    if (rc == 0) {
        st = db_query(d, e, "SELECT seq, secret FROM hook");
        while ((rc = db_step(d, st, e)) == 1) {
            struct reseal_row x = sealed_hook(how->vault, column_u64(st, 0), column_str(st, 1));
            if (x.text)
                vec_push(&hooks.list, x);
        }
    }
    /* ?3 has no column here; the comparison uses it up. */
    if (rc == 0 &&
        (reseal_write(d, "UPDATE schedule SET def = ?2 WHERE seq = ?1 AND ?3 = ''", &defs, e) < 0 ||
         reseal_write(d, "UPDATE hook SET secret = ?2 WHERE seq = ?1 AND ?3 = ''", &hooks, e) < 0))
        rc = -1;
    if (rc == 0)
        how->sealed += defs.list.n + hooks.list.n;
    reseal_rows_done(&defs);
    reseal_rows_done(&hooks);
    return rc;
}

/* ---- what is left of the old values ---- */

/* VACUUM copies the rows to a temporary file and back, so it needs space for two more copies.  In
 * memory, as db.c has temporary tables, a large database would not fit. */
static int reseal_scrub(struct db *d, struct err *e)
{
    int64_t used;

    if (db_int(d,
               "SELECT job > 1 OR EXISTS(SELECT 1 FROM hook) OR EXISTS(SELECT 1 FROM schedule)"
               " FROM counter",
               &used, e) < 0)
        return -1;
    if (!used)
        return 0; /* a new home */
    int rc = db_exec(d, "PRAGMA temp_store=FILE; VACUUM", e);
    if (db_exec(d, "PRAGMA temp_store=MEMORY", rc < 0 ? NULL : e) < 0 || rc < 0)
        return -1;
    int busy = sqlite3_wal_checkpoint_v2(d->h, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return busy == SQLITE_OK ? 0 : db_fail(d, e);
}

static int reseal_all(struct db *d, struct store_seal *how, struct err *e)
{
    uint64_t after = 0;
    int rc;

    do
        rc = reseal_some_specs(d, how, &after, e);
    while (rc == 1);
    if (rc < 0 || reseal_small_tables(d, how, e) < 0 || reseal_scrub(d, e) < 0)
        return -1;
    return db_run(d, e, "INSERT OR REPLACE INTO fact(name, value) VALUES(?1, '1')",
                  TEXT(STR(FACT_SEALED)));
}

void reseal_once(struct db *d, struct store_seal *how)
{
    int64_t done = 0;

    if (!how || !how->vault)
        return;
    if (db_int(d, "SELECT count(*) FROM fact WHERE name = '" FACT_SEALED "'", &done,
               &how->trouble) < 0 ||
        done)
        return;
    /* In case VACUUM has no space: what is replaced is at least overwritten. */
    sqlite3_exec(d->h, "PRAGMA secure_delete=ON", NULL, NULL, NULL);
    reseal_all(d, how, &how->trouble);
    sqlite3_exec(d->h, "PRAGMA secure_delete=OFF", NULL, NULL, NULL);
}
