/* The books of the doubled driver, shared between processes (DOUBLE_STATE): a file of this size. */
#ifndef TESSERA_SLICE_DOUBLE_STATE_H
#define TESSERA_SLICE_DOUBLE_STATE_H

#include <stdatomic.h>
#include <stdint.h>

enum { DOUBLE_ROWS = 64, DOUBLE_CARDS = 3 };
struct double_row { _Atomic uint32_t pid; uint32_t spare; _Atomic uint64_t used[DOUBLE_CARDS]; };
struct double_state {
    _Atomic uint64_t most[DOUBLE_CARDS]; /* the most that ever lay on each card */
    _Atomic uint64_t bookings;
    struct double_row row[DOUBLE_ROWS];
};

#endif
