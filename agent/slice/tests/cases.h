/* The checks that every route to the driver must pass; the route is how a name becomes a function. */
#ifndef TESSERA_SLICE_CASES_H
#define TESSERA_SLICE_CASES_H

#include <stdint.h>

typedef void *find_function(const char *name); /* an exported name of the driver, or NULL */

/* limit: of card 0, in bytes and a multiple of 4,096; card 1 has half of it, card 2 is not in the slice.
 * Prints a line for each check that fails and the number of checks; 0 when all hold. */
int run_cases(find_function *find, uint64_t limit);

#endif
