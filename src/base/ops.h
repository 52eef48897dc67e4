/* ops.h - tables of operations whose functions are named after their members
 *
 * {OPS(local, start, stop)} is {.start = local_start, .stop = local_stop}: a table reads as the
 * list of what it implements.  At most 16 members; the rest follows behind a comma.
 */
#pragma once

#define OPS(prefix, ...)                                                                           \
    OPS_COUNT_(__VA_ARGS__, OPS_16_, OPS_15_, OPS_14_, OPS_13_, OPS_12_, OPS_11_, OPS_10_, OPS_9_, \
               OPS_8_, OPS_7_, OPS_6_, OPS_5_, OPS_4_, OPS_3_, OPS_2_, OPS_1_, 0)                  \
    (prefix, __VA_ARGS__)
/* The name behind the members: that of the macro for their number. */
#define OPS_COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, name, ...) name
#define OPS_1_(p, op) .op = p##_##op
#define OPS_2_(p, op, ...) .op = p##_##op, OPS_1_(p, __VA_ARGS__)
#define OPS_3_(p, op, ...) .op = p##_##op, OPS_2_(p, __VA_ARGS__)
#define OPS_4_(p, op, ...) .op = p##_##op, OPS_3_(p, __VA_ARGS__)
#define OPS_5_(p, op, ...) .op = p##_##op, OPS_4_(p, __VA_ARGS__)
#define OPS_6_(p, op, ...) .op = p##_##op, OPS_5_(p, __VA_ARGS__)
#define OPS_7_(p, op, ...) .op = p##_##op, OPS_6_(p, __VA_ARGS__)
#define OPS_8_(p, op, ...) .op = p##_##op, OPS_7_(p, __VA_ARGS__)
#define OPS_9_(p, op, ...) .op = p##_##op, OPS_8_(p, __VA_ARGS__)
#define OPS_10_(p, op, ...) .op = p##_##op, OPS_9_(p, __VA_ARGS__)
#define OPS_11_(p, op, ...) .op = p##_##op, OPS_10_(p, __VA_ARGS__)
#define OPS_12_(p, op, ...) .op = p##_##op, OPS_11_(p, __VA_ARGS__)
#define OPS_13_(p, op, ...) .op = p##_##op, OPS_12_(p, __VA_ARGS__)
#define OPS_14_(p, op, ...) .op = p##_##op, OPS_13_(p, __VA_ARGS__)
#define OPS_15_(p, op, ...) .op = p##_##op, OPS_14_(p, __VA_ARGS__)
#define OPS_16_(p, op, ...) .op = p##_##op, OPS_15_(p, __VA_ARGS__)
