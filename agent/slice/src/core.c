#include "core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "account.h"

/* -- the real functions -------------------------------------------------------------------------------------------- */

static const char *const real_names[REAL_COUNT] = {
#define HOOK(name, family, since, thread) #name,
#define ALIAS(name, family, since, thread)
#define USE(name) #name,
#include "hooks.h"
#undef HOOK
#undef ALIAS
#undef USE
};
static _Atomic(any_function) real_functions[REAL_COUNT];

static int not_there(void) { return CUDA_ERROR_NOT_FOUND; }

any_function real_function(enum real_name name) {
    any_function function = atomic_load_explicit(&real_functions[name], memory_order_acquire);
    if (function) return function;
    if (!(function = real_symbol(real_names[name]))) function = (any_function)not_there;
    atomic_store_explicit(&real_functions[name], function, memory_order_release);
    return function;
}

bool real_has(enum real_name name) { return real_function(name) != (any_function)not_there; }

void real_set(enum real_name name, any_function function) {
    if (!real_has(name)) atomic_store_explicit(&real_functions[name], function, memory_order_release);
}

/* -- cards --------------------------------------------------------------------------------------------------------- */

enum { DEVICES = 128, UNKNOWN = 0, CARD_PLUS = 2 }; /* a known card is kept as card + 2, "not in the slice" as 1 */

CUresult card_of_device(CUdevice device, int *card) {
    static _Atomic int cards[DEVICES];
    int known = device >= 0 && device < DEVICES ? atomic_load_explicit(&cards[device], memory_order_relaxed) : UNKNOWN;
    if (known == UNKNOWN) {
        CUuuid uuid;
        CUresult result = REAL(cuDeviceGetUuid)(&uuid, device);
        if (result != CUDA_SUCCESS) return result;
        known = slice_card_of(uuid.bytes) + CARD_PLUS;
        if (device >= 0 && device < DEVICES) atomic_store_explicit(&cards[device], known, memory_order_relaxed);
    }
    *card = known - CARD_PLUS;
    return CUDA_SUCCESS;
}

CUresult current_card(int *card, CUdevice *device) {
    CUdevice current;
    CUresult result = REAL(cuCtxGetDevice)(&current);
    if (device && result == CUDA_SUCCESS) *device = current;
    return result == CUDA_SUCCESS ? card_of_device(current, card) : result;
}

CUresult card_of_pointer(CUdeviceptr pointer, int *card) {
    int device = -1;
    CUresult result = REAL(cuPointerGetAttribute)(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer);
    return result == CUDA_SUCCESS ? card_of_device(device, card) : current_card(card, NULL);
}

uint64_t current_context(void) {
    CUcontext context = NULL;
    return REAL(cuCtxGetCurrent)(&context) == CUDA_SUCCESS ? (uint64_t)(uintptr_t)context : 0;
}

/* -- charging ------------------------------------------------------------------------------------------------------ */

bool reserve(int card, uint64_t bytes) {
    if (slice_charge(card, bytes)) return true;
    if (card >= 0) {
        pools_give_back(card);
        slice_reap();
        if (slice_charge(card, bytes)) return true;
    }
    slice_refused(card);
    return false;
}

bool settle(int card, uint64_t charged, uint64_t true_size) {
    if (true_size <= charged) {
        slice_release(card, charged - true_size);
        return true;
    }
    return reserve(card, true_size - charged);
}

/* -- blocks: an open-addressing table, never more than two thirds full --------------------------------------------- */

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct block *table;
static size_t table_size, table_fill; /* fill counts live entries and the marks of removed ones */
static size_t table_live;
enum { REMOVED = -1 };

static void table_before_fork(void) { pthread_mutex_lock(&table_mutex); }
static void table_after_fork(void) { pthread_mutex_unlock(&table_mutex); }
static void table_after_fork_child(void) { /* CUDA does not outlive a fork: the child holds nothing */
    if (table) memset(table, 0, table_size * sizeof *table);
    table_fill = table_live = 0;
    pthread_mutex_unlock(&table_mutex);
}
__attribute__((constructor)) static void table_watch_forks(void) {
    pthread_atfork(table_before_fork, table_after_fork, table_after_fork_child);
}

static size_t place_of(int kind, uint64_t key) {
    uint64_t hash = (key ^ (uint64_t)kind << 56) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash >> 20) & (table_size - 1);
}

static struct block *find(int kind, uint64_t key) {
    if (!table) return NULL;
    for (size_t i = place_of(kind, key); table[i].kind != 0; i = (i + 1) & (table_size - 1))
        if (table[i].kind == kind && table[i].key == key) return &table[i];
    return NULL;
}

static void insert(struct block block) {
    size_t i = place_of(block.kind, block.key);
    while (table[i].kind > 0) i = (i + 1) & (table_size - 1);
    if (table[i].kind == 0) table_fill++;
    table[i] = block;
    table_live++;
}

static bool make_room(void) {
    if (table && table_fill * 3 < table_size * 2) return true;
    struct block *old = table;
    size_t old_size = table_size, size = 1024;
    while (size < table_live * 3) size *= 2;
    struct block *fresh = calloc(size, sizeof *fresh);
    if (!fresh) return false;
    table = fresh, table_size = size, table_fill = table_live = 0;
    for (size_t i = 0; i < old_size; i++)
        if (old[i].kind > 0) insert(old[i]);
    free(old);
    return true;
}

static struct block take(struct block *found) {
    struct block block = {0};
    if (!found) return block;
    block = *found;
    found->kind = REMOVED;
    table_live--;
    return block;
}

bool block_put(struct block block) {
    pthread_mutex_lock(&table_mutex);
    bool room = make_room();
    if (room) insert(block);
    pthread_mutex_unlock(&table_mutex);
    return room;
}

struct block block_take(int kind, uint64_t key) {
    pthread_mutex_lock(&table_mutex);
    struct block block = take(find(kind, key));
    pthread_mutex_unlock(&table_mutex);
    return block;
}

bool block_get(int kind, uint64_t key, struct block *block) {
    pthread_mutex_lock(&table_mutex);
    struct block *found = find(kind, key);
    if (found) *block = *found;
    pthread_mutex_unlock(&table_mutex);
    return found != NULL;
}

struct block block_take_of_context(uint64_t context) {
    struct block block = {0};
    pthread_mutex_lock(&table_mutex);
    for (size_t i = 0; i < table_size && block.kind == 0; i++)
        if (table[i].kind > 0 && table[i].context == context) block = take(&table[i]);
    pthread_mutex_unlock(&table_mutex);
    return block;
}

bool keep(int kind, uint64_t key, int card, uint64_t size, void *owner) {
    return block_put((struct block){.key = key, .kind = kind, .card = card, .size = size, .owner = owner,
                                    .context = kind == BLOCK_HANDLE || kind == BLOCK_MAPPING ? 0 : current_context()});
}

void block_end(struct block block) {
    if (block.kind == BLOCK_POOLED) pool_freed(block.owner, block.size);
    else slice_release(block.card, block.size);
}
