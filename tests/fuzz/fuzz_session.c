/* Cookies of a request: nothing crashes, and only what session_make wrote is a session. */
#include "base/util.h"
#include "request/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { NOW = 1000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct auth *a;
    static char ours[SESSION_MAX];
    struct caller who = {.uid = 1000, .gid = 100}, got;

    if (!a) {
        static const uint8_t secret[32] = {7};
        a = auth_new(NULL, "", who.uid, true);
        auth_set_secret(a, secret);
        session_make(a, &who, NOW, ours);
    }
    if (session_read(a, (struct str){(const char *)data, n}, NOW, &got)) {
        AUTO_FREE char *text = xstrndup((const char *)data, n);
        ASSERT(strstr(text, ours) && got.uid == who.uid && got.gid == who.gid);
    }
    return 0;
}
