/* tty.h - a terminal as a full screen: keys in, frames out, always put back in order */
#pragma once
#include "base/buf.h"
#include "base/err.h"

enum key {
    KEY_NONE,
    KEY_UP = 256,
    KEY_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_HOME,
    KEY_END,
    KEY_ESCAPE,
    KEY_ENTER,
    KEY_BACKSPACE,
    KEY_QUIT, /* Ctrl-C, Ctrl-D, or a signal asks us to go */
};
/* Alternate screen, no echo, no cursor; restored at tty_close, at exit and on signals.  The process
 * has one terminal, so these functions share static state: one thread only. */
int tty_open(struct err *e);
void tty_close(void);
/* The next key, or KEY_NONE after timeout_ms or when the window changed its size. Printable
 * characters are themselves. */
int tty_key(int timeout_ms);
/* Shows a frame at once, from the top left; unchanged frames cost nothing. */
void tty_frame(const struct buf *frame);
/* One key out of the bytes a terminal sends; *used: how many of them. */
int tty_decode(struct str bytes, size_t *used);
