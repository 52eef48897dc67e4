/* lib.c - opens libarchive once per process */
#include "archive/lib_priv.h"
#include "base/util.h"
#include <dlfcn.h>
#include <pthread.h>

static struct lib lib;
static struct err trouble;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The functions lie in struct lib in the order of LIB_LIST, so the addresses are copied in one
 * piece. */
static int find_functions(void *so)
{
    static const char *const names[] = {
#define X(name) "archive_" #name,
        LIB_LIST(X)
#undef X
    };
    void *found[ARRAY_SIZE(names)];

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (!(found[i] = dlsym(so, names[i])))
            return err_set(&trouble, ERR_UNAVAILABLE,
                           "libarchive has no function %s; install libarchive13", names[i]);
    _Static_assert(offsetof(struct lib, for_reading) == sizeof(found), "one name per function");
    memcpy(&lib, found, sizeof(found));
    return 0;
}

static void lib_load(void)
{
    void *so = dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);

    if (!so) {
        err_set(&trouble, ERR_UNAVAILABLE,
                "bundles and archives need libarchive and libarchive.so.13 cannot be opened; "
                "install libarchive13");
        return;
    }
    if (find_functions(so) < 0) {
        dlclose(so);
        return;
    }
    lib.for_reading = newlocale(LC_ALL_MASK, "C", NULL);
    lib.for_writing = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
    if (!lib.for_writing)
        lib.for_writing = lib.for_reading;
}

const struct lib *lib_get(struct err *e)
{
    pthread_once(&once, lib_load);
    if (trouble.code) {
        if (e)
            *e = trouble;
        return NULL;
    }
    return &lib;
}
