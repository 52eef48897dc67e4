/* home.h - the directory everything lives in */
#pragma once
#include "base/err.h"
#include "base/util.h"
#include "host/host.h"
#include "store/store.h"

struct home_secrets {
    uint8_t secret[32]; /* job tokens are derived from it */
    char token[65];     /* bearer token of the owner, 64 hex digits */
};
/* Makes the home and its `runs` directory.  The path must be absolute.  With multi_user other users
 * may enter both directories (mode 0711), but cannot list them. */
int home_prepare(const char *home, bool multi_user, struct err *e);
/* The lock lasts until *out_fd is closed.  Nobody else in this process may open and close
 * daemon.lock: closing any descriptor of the file drops a record lock. */
int home_lock(const char *home, int *out_fd, struct err *e); /* ERR_CONFLICT when held */
int home_secrets(const char *home, struct home_secrets *out,
                 struct err *e); /* made on first use, 0600 */
/* The id that the home shares with its database (file `id`); "" = it has none yet. */
int home_id_read(const char *home, char out[STORE_ID_MAX], struct err *e);
int home_id_write(const char *home, const char *id, struct err *e);
/* The path of `token` or `secret` if others can read that file; NULL = they cannot.  Yours. */
char *home_open_secret(const char *home);
char *home_python_path(void); /* yours; NULL when the package is nowhere near the program */
