/* tty.c - a terminal as a full screen
 *
 * Owns: raw mode, the alternate screen, the decoding of keys.  There is one terminal, hence one
 * static state.  Signals write a byte to a pipe that is polled together with the keyboard.
 */
#include "io/tty.h"
#include "base/file.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <termios.h>

#define ENTER_SCREEN "\033[?1049h\033[?25l\033[2J"
#define LEAVE_SCREEN "\033[?25h\033[?1049l"

static struct {
    struct termios before;
    bool open;
    int signals[2];
    char pending[64]; /* bytes read but not decoded */
    size_t n;
    struct buf shown;
} tty = {.signals = {-1, -1}};

/* 'w': the window has another size.  'q': the process was asked to end. */
static void tty_on_signal(int signo)
{
    int saved = errno;
    char byte = signo == SIGWINCH ? 'w' : 'q';

    (void)!write(tty.signals[1], &byte, 1);
    errno = saved;
}

void tty_close(void)
{
    if (!tty.open)
        return;
    tty.open = false;
    (void)!write(STDOUT_FILENO, LEAVE_SCREEN, sizeof(LEAVE_SCREEN) - 1);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &tty.before);
    buf_done(&tty.shown);
}

/* atexit restores the terminal when a command fails in the middle of the full screen. */
int tty_open(struct err *e)
{
    static const int caught[] = {SIGWINCH, SIGTERM, SIGHUP, SIGINT};
    struct sigaction sa = {.sa_handler = tty_on_signal};
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, &tty.before) < 0)
        return err_set(e, ERR_INVALID, "this command reads keys and needs a terminal");
    if (pipe2(tty.signals, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(e, "cannot create a pipe");
    for (size_t i = 0; i < ARRAY_SIZE(caught); i++)
        sigaction(caught[i], &sa, NULL);
    raw = tty.before;
    cfmakeraw(&raw);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    buf_init(&tty.shown, 4 << 20);
    tty.open = true;
    atexit(tty_close);
    (void)!write(STDOUT_FILENO, ENTER_SCREEN, sizeof(ENTER_SCREEN) - 1);
    return 0;
}

int tty_decode(struct str bytes, size_t *used)
{
    static const struct {
        const char *seq;
        int key;
    } keys[] = {
        {"\033[A", KEY_UP},   {"\033[B", KEY_DOWN},     {"\033OA", KEY_UP},
        {"\033OB", KEY_DOWN}, {"\033[5~", KEY_PAGE_UP}, {"\033[6~", KEY_PAGE_DOWN},
        {"\033[H", KEY_HOME}, {"\033[F", KEY_END},      {"\033[1~", KEY_HOME},
        {"\033[4~", KEY_END}, {"\033OH", KEY_HOME},     {"\033OF", KEY_END},
    };

    *used = bytes.n ? 1 : 0;
    if (!bytes.n)
        return KEY_NONE;
    unsigned char c = (unsigned char)bytes.p[0];
    if (c == 033 && bytes.n > 1) {
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
            if (str_starts(bytes, str_of(keys[i].seq))) {
                *used = strlen(keys[i].seq);
                return keys[i].key;
            }
        *used = bytes.n; /* a sequence we do not know: skipped as a whole */
        return KEY_NONE;
    }
    switch (c) {
    case 033:
        return KEY_ESCAPE;
    case '\r':
    case '\n':
        return KEY_ENTER;
    case 0x7f:
    case '\b':
        return KEY_BACKSPACE;
    case 3:
    case 4:
        return KEY_QUIT;
    default:
        return c >= ' ' ? c : KEY_NONE;
    }
}

/* Takes one key off the bytes that were read; KEY_NONE for a sequence that is not known. */
static int next_pending(void)
{
    size_t used;
    int key = tty_decode((struct str){tty.pending, tty.n}, &used);

    tty.n -= used;
    memmove(tty.pending, tty.pending + used, tty.n);
    return key;
}

int tty_key(int timeout_ms)
{
    struct pollfd p[] = {{STDIN_FILENO, POLLIN, 0}, {tty.signals[0], POLLIN, 0}};
    char byte;

    if (tty.n)
        return next_pending();
    if (poll(p, 2, timeout_ms) <= 0)
        return KEY_NONE;
    if (p[1].revents && read(tty.signals[0], &byte, 1) == 1) {
        buf_reset(&tty.shown); /* another size: everything is drawn anew */
        return byte == 'q' ? KEY_QUIT : KEY_NONE;
    }
    ssize_t n = read(STDIN_FILENO, tty.pending, sizeof(tty.pending));
    if (n <= 0)
        return n == 0 ? KEY_QUIT : KEY_NONE;
    tty.n = (size_t)n;
    return next_pending();
}

void tty_frame(const struct buf *frame)
{
    struct err e;

    if (str_eq(buf_str(frame), buf_str(&tty.shown)) && frame->n)
        return;
    buf_reset(&tty.shown);
    buf_add(&tty.shown, frame->p, frame->n);
    fd_write_all(STDOUT_FILENO, frame->p, frame->n, &e);
}
