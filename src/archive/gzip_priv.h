/* gzip_priv.h - writes gzip fast, and reads gzip from an untrusted sender */
#pragma once
#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes bytes in order; -1 with e set ends it. */
typedef int gzip_out_fn(void *ctx, const void *p, size_t n, struct err *e);

struct gzip;
struct gzip *gzip_new(gzip_out_fn *out, void *ctx);
int gzip_add(struct gzip *g, const void *p, size_t n, struct err *e);
int gzip_end(struct gzip *g, struct err *e); /* everything is out afterwards */
void gzip_free(struct gzip *g);

struct gunzip;
struct gunzip *gunzip_new(gzip_out_fn *out, void *ctx);
/* Checks the checksum and length at the end of each member of the file. */
int gunzip_add(struct gunzip *g, const void *p, size_t n, struct err *e);
int gunzip_end(struct gunzip *g, struct err *e); /* was it whole? */
void gunzip_free(struct gunzip *g);
