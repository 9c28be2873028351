/* Making the two files of a new slice, and the words in which sizes and cards are told. */
#ifndef TESSERA_SLICE_MAKING_H
#define TESSERA_SLICE_MAKING_H

#include <stdbool.h>
#include <stdint.h>

#include "format.h"

enum { DONE = 0, FAILED = 1, MISUSED = 2 };

struct slice_wish {
    uint32_t cards;
    uint8_t uuid[SLICE_CARDS][16];
    uint64_t bytes[SLICE_CARDS], context; /* context: what one costs on each card */
};

int slice_create(const char *directory, const struct slice_wish *wish); /* DONE, or a complaint was printed */
bool parse_size(const char *text, uint64_t *bytes);
bool parse_card(const char *text, uint8_t uuid[16], uint64_t *bytes); /* GPU-xxxxxxxx-xxxx-...=SIZE */
int complain(int status, const char *what, const char *which);        /* one line on stderr; returns the status */

#endif
