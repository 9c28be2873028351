/* The lock over all processes of a slice; it survives the death of its owner. */
#ifndef TESSERA_SLICE_SHAREDLOCK_H
#define TESSERA_SLICE_SHAREDLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Is the owner in this lock word alive? Asked only after waiting in vain. */
typedef bool sharedlock_alive(uint32_t word);

/* false after about ten seconds in which a living owner did not let go; *recovered: taken over from a dead one. */
bool sharedlock_take(_Atomic uint32_t *lock, uint32_t mine, sharedlock_alive *alive, bool *recovered);
void sharedlock_drop(_Atomic uint32_t *lock);

#endif
