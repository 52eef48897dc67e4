/* api.c - the room put together: its routes on the home's server, its streams, its end */
#include "api/api_priv.h"
#include "api/follow.h"

struct api *api_new(const struct api_conf *conf)
{
    struct api *a = xcalloc(1, sizeof(*a));

    a->conf = *conf;
    a->uploads.max = API_UPLOADS_MAX;
    a->conf.home = xstrdup(conf->home);
    a->conf.version = xstrdup(conf->version);
    a->events = events_new(a);
    a->follows = follows_new(a);
    a->keeps = keeps_new(a);
    request_server_add(conf->requests, &(struct service){.routes = api_routes,
                                                         .n_routes = api_n_routes,
                                                         .self = a,
                                                         .begin = snapshots_begin,
                                                         .piece = upload_piece});
    return a;
}

void api_leave(struct api *a)
{
    atomic_store(&a->leaving, true);
}

void api_free(struct api *a)
{
    if (!a)
        return;
    events_free(a->events);
    follows_free(a->follows);
    keeps_free(a->keeps);
    vec_done(&a->uploads.waiting);
    free((char *)a->conf.home);
    free((char *)a->conf.version);
    free(a);
}

void api_attach(struct api *a, struct http_server *s)
{
    a->server = s;
}

bool api_claims_snapshots(const struct api *a)
{
    return atomic_load(&a->claims) > 0;
}

void api_troubled(struct api *a, struct str text)
{
    keeps_troubled(a->keeps, text);
}

/* Events tell of new states, and followers must learn that a run began or ended. */
void api_committed(struct api *a)
{
    events_committed(a->events);
    follows_committed(a->follows);
}
