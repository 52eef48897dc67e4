/* node.h - where runs go: slots, CPUs, memory, devices */
#pragma once
#include "model/gpu_set.h"
#include "model/spec.h"

enum device_vendor { DEVICE_ANY, DEVICE_NVIDIA, DEVICE_AMD };
enum device_state {
    DEVICE_UNSEEN, /* only the count is known: no driver library looks at it */
    DEVICE_OK,
    DEVICE_LOST,    /* was there, and does not answer: nothing is placed on it until it does */
    DEVICE_EXCLUDED /* by the administrator */
};
/* One GPU.  The struct owns no memory and can be copied. */
struct device {
    char uuid[64]; /* "gpu-0" when only the count is known */
    char kind[64];
    int64_t mem_bytes; /* 0 = not known */
    int32_t index;     /* in the node */
    int32_t ordinal;   /* as its driver counts */
    enum device_vendor vendor;
    /* As of the last look; -1 = not told. */
    enum device_state state;
    int64_t seen_ms; /* wall time of that look; 0 = never */
    int64_t used_bytes;
    int64_t foreign_bytes; /* of it, held by processes that are no run of ours */
    int32_t busy_percent, power_mw;
    char trouble[80]; /* why it is not ok; "" = it is */
};
/* The users whose jobs may run on a node. */
struct node_users {
    const uint32_t *uids;
    size_t n;
    bool all; /* whoever they are */
};
/* A machine with its capacities.  Whoever made the node owns `devices` and `users`. */
struct node {
    char name[64];
    int32_t slots;
    int64_t mcpu, mem_bytes;
    struct device *devices;
    size_t n_devices;
    bool drained;      /* finish what runs, start nothing */
    bool reserved;     /* for jobs that name it */
    bool away;         /* cannot be reached now: start nothing; what runs there goes on */
    char trouble[160]; /* why it is away, for people; "" = it is not */
    int64_t again_ms;  /* monotonic: when it is tried again; 0 = not told */
    const struct node_users *users; /* NULL = jobs of every user may run there */
};
enum { NODE_MAX_GPUS = GPU_SET_MAX };
#define NODE_UNTRIED "not connected yet" /* its trouble until it was tried for the first time */
/* What runs hold of a node. */
struct usage {
    int32_t slots;
    int64_t mcpu, mem_bytes;
    struct gpu_set gpus;           /* devices that somebody is on */
    uint8_t on_gpu[NODE_MAX_GPUS]; /* how many */
    int32_t runs;
};
/* May jobs of this user run there? */
bool node_admits(const struct node *n, uint32_t uid);
/* Room as things stand; `drained` is the planner's business, not looked at here. */
bool resources_fit(const struct node *n, const struct usage *u, const struct resources *need);
/* Would the request fit if nothing else ran on the node? */
bool resources_ever_fit(const struct node *n, const struct resources *need);
/* What is lacking of each kind for `need` to fit; all 0 when it does. */
struct resources resources_missing(const struct node *n, const struct usage *u,
                                   const struct resources *need);
struct gpu_set node_gpus(const struct node *n); /* all of its devices, numbered in its order */
/* The devices that no run is on. */
struct gpu_set node_free_gpus(const struct node *n, const struct usage *u);
/* Books a run on the node; usage_sub with the same arguments takes it off again.  Several runs
 * may be on one device: the planner has decided before who may share it. */
void usage_add(struct usage *u, const struct resources *need, const struct gpu_set *gpus);
void usage_sub(struct usage *u, const struct resources *need, const struct gpu_set *gpus);
