/* http_answer.h - one HTTP/1.1 answer, read in whatever pieces it arrives
 *
 * For those who wait for several servers, or for a server and something else: they own the socket,
 * read when poll says so, and feed what they got.  Bodies with a length, in chunks, or up to the
 * end of the connection.
 */
#pragma once
#include "base/err.h"
#include "base/str.h"

struct http_answer;
/* fn gets each piece as it comes; false ends the reading: the rest is dropped. */
struct http_answer *http_answer_new(bool (*fn)(void *arg, struct str piece), void *arg);
void http_answer_free(struct http_answer *a);
/* n = 0 says that the connection has ended.  1 = more is expected, 0 = the answer is complete (or
 * fn wanted no more), -1 = this is no HTTP, or it ended too early. */
int http_answer_feed(struct http_answer *a, const char *p, size_t n, struct err *e);
int http_answer_status(const struct http_answer *a); /* 0 until the head is complete */
