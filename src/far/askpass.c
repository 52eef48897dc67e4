/* askpass.c - the program that ssh starts to ask for a password (SSH_ASKPASS)
 *
 * ssh puts its question on the command line: "user@host's password: ", "(user@host) Password: ",
 * "Enter passphrase for key '/home/u/.ssh/id': ".  Anything else, such as whether an unknown host
 * key is fine, is not ours to answer.
 */
#include "far/askpass.h"
#include "backend/ssh/wire.h"
#include "base/file.h"
#include "base/json.h"
#include "base/util.h"
#include <stdio.h>
#include <string.h>

enum { SECRETS_MAX = 64 << 10 };

int askpass_main(int argc, char **argv)
{
    const char *path = getenv(WIRE_ASKPASS), *key = NULL;
    AUTO_FREE char *text = NULL;
    AUTO(json) struct json *j = NULL;
    size_t n;
    int rc = 1;

    if (argc > 1 && strcasestr(argv[1], "passphrase"))
        key = "passphrase";
    else if (argc > 1 && strcasestr(argv[1], "password"))
        key = "password";
    if (!key || file_read_all(path, SECRETS_MAX, &text, &n, NULL) < 0 ||
        json_parse((struct str){text, n}, "secrets", &j, NULL) < 0)
        return 1;
    struct str answer = json_str(json_get(j, key));
    if (json_get(j, key) && fwrite(answer.p, 1, answer.n, stdout) == answer.n &&
        putchar('\n') != EOF && fflush(stdout) == 0)
        rc = 0;
    return rc;
}
