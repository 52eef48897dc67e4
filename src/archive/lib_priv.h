/* lib_priv.h - the functions of libarchive we use, opened on first use
 *
 * Linked, libarchive brings a dozen libraries into every command; its static form cannot be linked
 * without them.  Its headers give types and numbers only.
 */
#pragma once
#include "base/err.h"
#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

/* name in libarchive without "archive_" */
#define LIB_LIST(X)                                                                                \
    X(entry_free)                                                                                  \
    X(entry_new)                                                                                   \
    X(entry_clear)                                                                                 \
    X(entry_copy_pathname)                                                                         \
    X(entry_copy_symlink)                                                                          \
    X(entry_filetype)                                                                              \
    X(entry_hardlink)                                                                              \
    X(entry_mtime)                                                                                 \
    X(entry_mtime_nsec)                                                                            \
    X(entry_pathname)                                                                              \
    X(entry_perm)                                                                                  \
    X(entry_set_filetype)                                                                          \
    X(entry_set_mtime)                                                                             \
    X(entry_set_perm)                                                                              \
    X(entry_set_size)                                                                              \
    X(entry_size)                                                                                  \
    X(entry_sparse_add_entry)                                                                      \
    X(entry_symlink)                                                                               \
    X(entry_xattr_add_entry)                                                                       \
    X(entry_xattr_next)                                                                            \
    X(entry_xattr_reset)                                                                           \
    X(error_string)                                                                                \
    X(read_data_block)                                                                             \
    X(read_free)                                                                                   \
    X(read_new)                                                                                    \
    X(read_next_header)                                                                            \
    X(read_open)                                                                                   \
    X(read_support_format_tar)                                                                     \
    X(set_error)                                                                                   \
    X(write_close)                                                                                 \
    X(write_data)                                                                                  \
    X(write_finish_entry)                                                                          \
    X(write_free)                                                                                  \
    X(write_header)                                                                                \
    X(write_new)                                                                                   \
    X(write_open)                                                                                  \
    X(write_set_bytes_per_block)                                                                   \
    X(write_set_format_pax_restricted)

struct lib {
#define X(name) __typeof__(archive_##name) *name;
    LIB_LIST(X)
#undef X
    /* For uselocale() around its calls.  It translates names between the locale and UTF-8.  Read
     * with a UTF-8 locale it would also "normalise" them into other bytes, so tars are read in the
     * C locale, where it hands them on as they are; written with UTF-8 names are taken as valid
     * UTF-8 where they are, and marked as binary where not. */
    locale_t for_reading, for_writing;
};
/* NULL with ERR_UNAVAILABLE when it is not installed. */
const struct lib *lib_get(struct err *e);
