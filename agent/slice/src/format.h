/* The two files of one slice, as they lie on disk (little-endian, both made by slicectl or the agent).
 *
 * limits: written by the agent only, read-only for the task. One 64-byte entry per card. A limit is one 64-bit word
 *         (48 bits of bytes, 16 bits of check), so that a live resize is a single atomic store.
 * usage:  written by the processes of the task. One slot per process, written by its owner only; there is no total,
 *         so nothing can drift: what is used is always the sum over the slots of living processes. */
#ifndef TESSERA_SLICE_FORMAT_H
#define TESSERA_SLICE_FORMAT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SLICE_VERSION = 1,
    SLICE_CARDS = 16,
    SLICE_SLOTS = 1024,
    SLICE_LIMITS_SIZE = 4096,
    SLICE_HEADER_SIZE = 4096,
    SLICE_SLOT_SIZE = 512,
    SLICE_USAGE_SIZE = SLICE_HEADER_SIZE + SLICE_SLOTS * SLICE_SLOT_SIZE,
    SLICE_LIFE = 1 << 30 /* byte of the usage file whose lock says that slot 0 lives; slot n: SLICE_LIFE + n */
};
#define SLICE_LIMITS_MAGIC "TSLIMITS"
#define SLICE_USAGE_MAGIC "TSLUSAGE"
#define SLICE_MOST ((UINT64_C(1) << 48) - 1) /* the largest limit that fits, in bytes (256 TiB less one) */

struct slice_card {
    uint8_t uuid[16];
    uint64_t context; /* bytes charged to a process while it has a context on this card */
    uint64_t spare;
    _Atomic uint64_t word; /* the limit: slice_pack() */
    uint64_t spare_too[3];
};

struct slice_limits {
    char magic[8];
    uint32_t version, cards;
    uint64_t id;    /* the same in both files of a slice */
    uint64_t check; /* slice_check() of all that does not change */
    uint64_t spare[4];
    struct slice_card card[SLICE_CARDS];
};

struct slice_slot {
    _Atomic uint32_t generation; /* grows with every new owner */
    _Atomic uint32_t pid;        /* as the owner's PID namespace calls it; 0: nobody's, or the agent's */
    _Atomic uint64_t cards;      /* bit n: the owner has a context on card n */
    _Atomic uint64_t used[SLICE_CARDS], peak[SLICE_CARDS], refused[SLICE_CARDS];
    uint64_t spare[SLICE_SLOT_SIZE / 8 - 2 - 3 * SLICE_CARDS];
};

struct slice_usage {
    char magic[8];
    uint32_t version, slots;
    uint64_t id;
    uint64_t spare[5];
    _Atomic uint32_t lock; /* 0, or owner's generation << 12 | slot << 2 | waiters << 1 | 1 */
    _Atomic uint32_t high; /* no slot at or above this one was ever used */
    _Atomic uint64_t recovered; /* locks taken over from processes that died holding them */
    _Atomic uint64_t reaped;    /* slots of dead processes emptied */
    _Atomic uint64_t refused[SLICE_CARDS]; /* requests refused by all processes, the dead too */
    uint64_t spare_too[SLICE_HEADER_SIZE / 8 - 11 - SLICE_CARDS];
    struct slice_slot slot[SLICE_SLOTS];
};

_Static_assert(sizeof(struct slice_card) == 64, "layout");
_Static_assert(sizeof(struct slice_limits) <= SLICE_LIMITS_SIZE, "layout");
_Static_assert(sizeof(struct slice_slot) == SLICE_SLOT_SIZE, "layout");
_Static_assert(offsetof(struct slice_usage, lock) == 64, "layout");
_Static_assert(offsetof(struct slice_usage, slot) == SLICE_HEADER_SIZE, "layout");
_Static_assert(sizeof(struct slice_usage) == SLICE_USAGE_SIZE, "layout");

static inline uint64_t slice_hash(const void *data, size_t length, uint64_t seed) { /* FNV-1a, 64 bits */
    const unsigned char *bytes = data;
    for (size_t i = 0; i < length; i++) seed = (seed ^ bytes[i]) * UINT64_C(0x100000001b3);
    return seed;
}

static inline uint64_t slice_check(const struct slice_limits *limits) {
    uint64_t hash = slice_hash(limits, offsetof(struct slice_limits, check), UINT64_C(0xcbf29ce484222325));
    for (int i = 0; i < SLICE_CARDS; i++) hash = slice_hash(&limits->card[i], offsetof(struct slice_card, word), hash);
    return hash;
}

/* The limit word: the bytes above, below them 16 bits made from the bytes, the card and the slice. */
static inline uint64_t slice_pack(uint64_t bytes, const uint8_t uuid[16], uint64_t id) {
    uint64_t hash = slice_hash(&bytes, sizeof bytes, slice_hash(uuid, 16, id ^ UINT64_C(0xcbf29ce484222325)));
    return bytes << 16 | ((hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48) & 0xffff);
}

#endif
