/* A lifeline: a byte lock on the usage file that lasts exactly as long as this process's memory. */
#ifndef TESSERA_SLICE_LIFELINE_H
#define TESSERA_SLICE_LIFELINE_H

#include <stdbool.h>

struct slice_usage;

/* Take the lock of the first free slot: its number, or -1. No descriptor stays open. */
int lifeline_take(int descriptor, int slots);
bool lifeline_try(int descriptor, int slot);   /* take it on this descriptor only (until that is closed) */
bool lifeline_held(int descriptor, int slot);  /* is it held through another open file? */

#endif
