/* sobol.h - points that fill the unit cube evenly: a Sobol sequence, scrambled by a seed */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Coordinate `dim` of point `index`, 0 ≤ x < 1.  The first 2^k points have exactly one in each of
 * the 2^k equal parts of every coordinate.  The same seed gives the same sequence. */
double sobol_unit(uint64_t seed, uint32_t index, size_t dim);
