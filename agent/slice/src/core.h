/* What all hooks share: the real functions, which card a call means, and what this process holds. */
#ifndef TESSERA_SLICE_CORE_H
#define TESSERA_SLICE_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "driver.h"
#include "real.h"

enum real_name {
#define HOOK(name, family, since, thread) REAL_##name,
#define ALIAS(name, family, since, thread)
#define USE(name) REAL_##name,
#include "hooks.h"
#undef HOOK
#undef ALIAS
#undef USE
    REAL_COUNT
};

any_function real_function(enum real_name name); /* never NULL: a name the driver lacks answers CUDA_ERROR_NOT_FOUND */
bool real_has(enum real_name name);
void real_set(enum real_name name, any_function function); /* if it is not known yet */
#define REAL(name) ((__typeof__(&name))real_function(REAL_##name))

/* Cards. All three answer a CUresult; *card is the place in the slice's files, -1 for a card that is not in the slice. */
CUresult card_of_device(CUdevice device, int *card);
CUresult current_card(int *card, CUdevice *device);
CUresult card_of_pointer(CUdeviceptr pointer, int *card);

/* Charge bytes to the card. When they do not fit: give back what our pools keep unused, forget the dead, try again. */
bool reserve(int card, uint64_t bytes);

/* Blocks: what this process holds, by the driver's handle. */
enum block_kind { BLOCK_POINTER = 1, BLOCK_POOLED, BLOCK_ARRAY, BLOCK_MIPMAP, BLOCK_HANDLE, BLOCK_MAPPING, BLOCK_GRAPH, BLOCK_EXEC, BLOCK_CONTEXT };
struct block {
    uint64_t key;
    int kind, card;     /* kind 0: none */
    uint64_t size;      /* bytes charged, or of a mapping */
    uint64_t context;   /* the context it ends with; 0: none */
    void *owner;        /* the pool, the memory behind a handle, the nodes of a graph */
};
bool block_put(struct block block);                   /* false: no memory for the entry */
struct block block_take(int kind, uint64_t key);      /* remove it: before the real free, addresses are reused */
bool block_get(int kind, uint64_t key, struct block *block);
struct block block_take_of_context(uint64_t context); /* any one of them, kind 0 when there is none */
uint64_t current_context(void);

/* Keep a new allocation: false when it cannot be kept, then the caller gives it back. */
bool keep(int kind, uint64_t key, int card, uint64_t size, void *owner);
/* Make a charge what the allocation really takes. */
bool settle(int card, uint64_t charged, uint64_t true_size);
/* End what ended with a context: whatever block it was. */
void block_end(struct block block);

/* Pools (pools.c). */
void pools_give_back(int card);                  /* trim what our pools keep unused */
void pool_freed(void *pool, uint64_t size);      /* a block of this pool is gone */
void pools_settle_all(void);
void *graph_pool_grow(CUdevice device, int card, uint64_t size); /* the card's graph memory, or NULL: no room */

/* Allocation nodes of graphs (graphs.c): charged from here until the graph and what was instantiated from it are gone. */
CUresult graph_nodes_add(CUgraph graph, CUdevice device, uint64_t size);
void graph_nodes_undo(CUgraph graph); /* the last one added did not come to be */

#define CHECK_OPEN() do { if (!slice_open()) return CUDA_ERROR_SYSTEM_NOT_READY; } while (0)

#endif
