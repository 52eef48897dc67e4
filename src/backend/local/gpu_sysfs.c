/* gpu_sysfs.c - AMD's devices, from the files of their kernel driver
 *
 * Devices: /sys/class/drm/cardN/device with AMD's vendor number and a count of its memory.
 * Processes: whoever has a device node of /dev/dri open tells in /proc/PID/fdinfo how much memory
 * it holds on which device; a descriptor that was duplicated has the same client number and counts
 * once.
 */
#include "backend/local/gpu_priv.h"
#include "base/file.h"
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>

enum { FILE_MAX_BYTES = 16384, PATH_BYTES = 600 };

struct card {
    int64_t number;
    char dir[PATH_BYTES], pci[32];
};
struct sysfs {
    char *drm, *proc;
};

static const char *env_or(const char *name, const char *otherwise)
{
    const char *v = getenv(name);

    return v && *v ? v : otherwise;
}

static bool sysfs_read_text(const char *dir, const char *name, char *out, size_t max)
{
    AUTO_FREE char *path = path_join(dir, name), *text = NULL;
    size_t n;

    if (file_read_all(path, FILE_MAX_BYTES, &text, &n, NULL) < 0)
        return false;
    struct str s = str_trim((struct str){text, n});
    snprintf(out, max, STR_FMT, STR_ARG(s));
    return s.n > 0;
}

/* False for a missing file, for text, and for a negative number. */
static bool sysfs_read_int(const char *dir, const char *name, int64_t *out)
{
    char text[64];

    return sysfs_read_text(dir, name, text, sizeof(text)) && str_to_i64(str_of(text), out) &&
           *out >= 0;
}

/* ---- devices ---- */

/* "PCI_SLOT_NAME=0000:03:00.0" among other lines. */
static void read_pci(struct card *c)
{
    char text[4096];

    if (!sysfs_read_text(c->dir, "uevent", text, sizeof(text)))
        return;
    for (struct str rest = str_of(text), line; rest.n;) {
        line = str_cut(rest, '\n', &rest);
        struct str value, key = str_cut(line, '=', &value);
        if (str_eq_c(key, "PCI_SLOT_NAME"))
            snprintf(c->pci, sizeof(c->pci), STR_FMT, STR_ARG(value));
    }
}

static int card_by_number(const void *x, const void *y)
{
    const struct card *a = x, *b = y;

    return a->number < b->number ? -1 : a->number > b->number;
}

struct cards {
    struct card *p;
    size_t n, cap;
};

/* AMD's cards, sorted by number; cards of other vendors are left out. */
static void cards_read(const struct sysfs *s, struct cards *out)
{
    DIR *d = opendir(s->drm);

    for (struct dirent *ent; d && (ent = readdir(d));) {
        struct card c = {0};
        char vendor[16];
        if (!str_starts(str_of(ent->d_name), STR("card")) ||
            !str_to_i64(str_of(ent->d_name + 4), &c.number))
            continue; /* "card0-DP-1" is a connector */
        int n = snprintf(c.dir, sizeof(c.dir), "%s/%s/device", s->drm, ent->d_name);
        if (n >= PATH_BYTES || !sysfs_read_text(c.dir, "vendor", vendor, sizeof(vendor)) ||
            strcmp(vendor, "0x1002") != 0)
            continue;
        read_pci(&c);
        if (out->n < NODE_MAX_GPUS)
            vec_push(out, c);
    }
    if (d)
        closedir(d);
    if (out->n)
        qsort(out->p, out->n, sizeof(*out->p), card_by_number);
}

static void read_power(const struct card *c, struct device *d)
{
    AUTO_FREE char *dir = path_join(c->dir, "hwmon");
    DIR *all = opendir(dir);
    int64_t microwatts;

    for (struct dirent *ent; all && (ent = readdir(all));) {
        if (ent->d_name[0] == '.')
            continue;
        AUTO_FREE char *one = path_join(dir, ent->d_name);
        if (sysfs_read_int(one, "power1_average", &microwatts) ||
            sysfs_read_int(one, "power1_input", &microwatts))
            d->power_mw = (int32_t)MIN(microwatts / 1000, (int64_t)INT32_MAX);
    }
    if (all)
        closedir(all);
}

static void read_card(const struct card *c, int32_t ordinal, struct gpu_look *out)
{
    struct device *d = gpu_look_device(out, DEVICE_AMD, ordinal);
    char text[64];
    int64_t v;

    if (sysfs_read_text(c->dir, "unique_id", text, sizeof(text)))
        snprintf(d->uuid, sizeof(d->uuid), "GPU-%.32s", text);
    else
        snprintf(d->uuid, sizeof(d->uuid), "amd-%s", c->pci);
    if (!sysfs_read_text(c->dir, "product_name", d->kind, sizeof(d->kind)))
        snprintf(d->kind, sizeof(d->kind), "AMD GPU %.20s",
                 sysfs_read_text(c->dir, "device", text, sizeof(text)) ? text : "");
    if (!sysfs_read_int(c->dir, "mem_info_vram_total", &d->mem_bytes) ||
        !sysfs_read_int(c->dir, "mem_info_vram_used", &d->used_bytes)) {
        d->state = DEVICE_LOST;
        snprintf(d->trouble, sizeof(d->trouble), "card%" PRId64 " does not tell its memory",
                 c->number);
        return;
    }
    if (sysfs_read_int(c->dir, "gpu_busy_percent", &v))
        d->busy_percent = (int32_t)MIN(v, 100);
    read_power(c, d);
}

/* ---- processes ---- */

/* "1536 KiB", "4 MiB", "4096" */
static int64_t memory_value(struct str s)
{
    struct str unit, number = str_cut(str_trim(s), ' ', &unit);
    int64_t v, k;

    if (!str_to_i64(number, &v) || v < 0)
        return 0;
    unit = str_trim(unit);
    k = str_eq_c(unit, "KiB") ? 1 << 10 : str_eq_c(unit, "MiB") ? 1 << 20 : 1;
    return v > INT64_MAX / k ? INT64_MAX : v * k;
}

bool drm_client_parse(struct str text, struct drm_client *out)
{
    bool counted = false;

    *out = (struct drm_client){.id = -1};
    for (struct str rest = text, line; rest.n;) {
        line = str_cut(rest, '\n', &rest);
        struct str value, key = str_cut(line, ':', &value);
        value = str_trim(value);
        if (str_eq_c(key, "drm-pdev"))
            snprintf(out->pci, sizeof(out->pci), STR_FMT, STR_ARG(value));
        else if (str_eq_c(key, "drm-client-id"))
            str_to_i64(value, &out->id);
        else if (str_eq_c(key, "drm-memory-vram") || str_eq_c(key, "drm-resident-vram")) {
            int64_t bytes = memory_value(value);
            out->vram_bytes = MAX(out->vram_bytes, bytes);
            counted = true;
        }
    }
    return counted && out->pci[0];
}

/* DRM clients of one process, each once. */
struct clients {
    struct drm_client *p;
    size_t n, cap;
};

static void clients_of(const char *dir, struct clients *out)
{
    AUTO_FREE char *fds = path_join(dir, "fd");
    DIR *d = opendir(fds); /* those of other users only root may see */

    for (struct dirent *ent; d && (ent = readdir(d));) {
        char to[64], name[300], text[4096];
        struct drm_client c;
        ssize_t n = readlinkat(dirfd(d), ent->d_name, to, sizeof(to) - 1);
        if (n < 9 || memcmp(to, "/dev/dri/", 9) != 0)
            continue;
        snprintf(name, sizeof(name), "fdinfo/%s", ent->d_name);
        if (!sysfs_read_text(dir, name, text, sizeof(text)) || !drm_client_parse(str_of(text), &c))
            continue;
        bool again = false;
        for (size_t i = 0; i < out->n; i++)
            again |= c.id >= 0 && out->p[i].id == c.id && !strcmp(out->p[i].pci, c.pci);
        if (!again)
            vec_push(out, c);
    }
    if (d)
        closedir(d);
}

static void process_read(const char *dir, int32_t pid, const struct cards *cards, uint32_t first,
                         struct gpu_look *out)
{
    struct clients clients = {0};

    clients_of(dir, &clients);
    for (size_t i = 0; clients.n && i < cards->n; i++) {
        int64_t bytes = 0;
        for (size_t k = 0; k < clients.n; k++)
            if (!strcmp(clients.p[k].pci, cards->p[i].pci))
                bytes += MIN(clients.p[k].vram_bytes, INT64_MAX - bytes);
        if (bytes)
            gpu_look_process(out, pid, first + (uint32_t)i, bytes);
    }
    vec_done(&clients);
}

static void processes_read(const struct sysfs *s, const struct cards *cards, uint32_t first,
                           struct gpu_look *out)
{
    DIR *d = opendir(s->proc);
    int64_t pid;

    for (struct dirent *ent; d && (ent = readdir(d));) {
        if (!str_to_i64(str_of(ent->d_name), &pid) || pid <= 0 || pid > INT32_MAX)
            continue;
        AUTO_FREE char *dir = path_join(s->proc, ent->d_name);
        process_read(dir, (int32_t)pid, cards, first, out);
    }
    if (d)
        closedir(d);
}

/* ---- the source ---- */

static void sysfs_close(void *self)
{
    struct sysfs *s = self;

    free(s->drm);
    free(s->proc);
    free(s);
}

static void *sysfs_open(struct err *e)
{
    struct sysfs *s = xcalloc(1, sizeof(*s));
    struct cards cards = {0};

    s->drm = path_join(env_or("BERTH_SYSFS_ROOT", "/sys"), "class/drm");
    s->proc = xstrdup(env_or("BERTH_PROC_ROOT", "/proc"));
    cards_read(s, &cards);
    size_t n = cards.n;
    vec_done(&cards);
    if (n)
        return s;
    err_set(e, ERR_NOT_FOUND, "%s has no card of AMD", s->drm);
    sysfs_close(s);
    return NULL;
}

static void sysfs_read(void *self, struct gpu_look *out)
{
    const struct sysfs *s = self;
    struct cards cards = {0};
    uint32_t first = (uint32_t)out->devices.n;

    cards_read(s, &cards);
    gpu_look_say(out, "amdgpu (%s)", s->drm);
    for (size_t i = 0; i < cards.n; i++)
        read_card(&cards.p[i], (int32_t)i, out);
    if (cards.n)
        processes_read(s, &cards, first, out);
    vec_done(&cards);
}

const struct gpu_source gpu_sysfs = {sysfs_open, sysfs_read, sysfs_close};
