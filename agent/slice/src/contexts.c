/* The start, what a program is told about its card, and contexts: what they cost and what ends with them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "account.h"
#include "core.h"
#include "format.h"

CUresult cuInit(unsigned int flags) {
    CHECK_OPEN();
    return REAL(cuInit)(flags);
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    int card;
    CHECK_OPEN();
    CUresult result = REAL(cuDeviceTotalMem_v2)(bytes, device);
    if (result == CUDA_SUCCESS) result = card_of_device(device, &card);
    if (result == CUDA_SUCCESS) *bytes = smaller(*bytes, slice_limit(card));
    return result;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    int card;
    CHECK_OPEN();
    pools_settle_all();
    CUresult result = REAL(cuMemGetInfo_v2)(free_bytes, total);
    if (result == CUDA_SUCCESS) result = current_card(&card, NULL);
    if (result != CUDA_SUCCESS) return result;
    uint64_t limit = slice_limit(card), used = slice_used(card);
    *total = smaller(*total, limit);
    *free_bytes = smaller(*free_bytes, used < *total ? *total - used : 0);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device) { /* 32-bit, from before CUDA 3.2 */
    (void)bytes, (void)device;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total) { /* 32-bit, from before CUDA 3.2 */
    (void)free_bytes, (void)total;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* -- contexts ------------------------------------------------------------------------------------------------------ */

static _Atomic int contexts_on[SLICE_CARDS];

static void count_context(int card, int change) {
    if (card < 0) return;
    int before = atomic_fetch_add(&contexts_on[card], change);
    if ((before > 0) != (before + change > 0)) slice_context(card, change > 0);
}

/* Each context is a block of its own, charged what the agent measured a context to cost. */
static CUresult account_context(CUcontext context, CUdevice device) {
    struct block block;
    int card;
    CUresult result = card_of_device(device, &card);
    if (result != CUDA_SUCCESS || block_get(BLOCK_CONTEXT, (uintptr_t)context, &block)) return result; /* retained again */
    uint64_t cost = slice_context_cost(card);
    if (!reserve(card, cost)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!block_put((struct block){.kind = BLOCK_CONTEXT, .key = (uintptr_t)context, .card = card, .size = cost})) {
        slice_release(card, cost);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    count_context(card, 1);
    return CUDA_SUCCESS;
}

static CUresult new_context(CUcontext context, CUdevice device) { /* one at a time: threads retain the same one */
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    CUresult result = account_context(context, device);
    pthread_mutex_unlock(&mutex);
    return result;
}

static CUresult created(CUresult result, CUcontext *context, CUdevice device) {
    if (result != CUDA_SUCCESS) return result;
    result = new_context(*context, device);
    if (result != CUDA_SUCCESS) REAL(cuCtxDestroy_v2)(*context);
    return result;
}

CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device) {
    CHECK_OPEN();
    return created(REAL(cuCtxCreate)(context, flags, device), context, device);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
    CHECK_OPEN();
    return created(REAL(cuCtxCreate_v2)(context, flags, device), context, device);
}

CUresult cuCtxCreate_v3(CUcontext *context, void *affinity, int count, unsigned int flags, CUdevice device) {
    CHECK_OPEN();
    return created(REAL(cuCtxCreate_v3)(context, affinity, count, flags, device), context, device);
}

CUresult cuCtxCreate_v4(CUcontext *context, void *params, unsigned int flags, CUdevice device) {
    CHECK_OPEN();
    return created(REAL(cuCtxCreate_v4)(context, params, flags, device), context, device);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    CHECK_OPEN();
    CUresult result = REAL(cuDevicePrimaryCtxRetain)(context, device);
    if (result != CUDA_SUCCESS) return result;
    result = new_context(*context, device);
    if (result != CUDA_SUCCESS) REAL(cuDevicePrimaryCtxRelease_v2)(device);
    return result;
}

/* What ends with a context is taken out before the real call (addresses are reused) and put back if it did not end. */
struct ending { struct block block; struct ending *next; };

static struct ending *begin_end(uint64_t context) {
    struct ending *all = NULL;
    while (context) {
        struct ending *one = malloc(sizeof *one);
        if (!one) break;
        one->block = block_take_of_context(context);
        if (one->block.kind == 0) {
            free(one);
            break;
        }
        one->next = all;
        all = one;
    }
    return all;
}

static void finish_end(struct ending *all, uint64_t context, bool over) {
    while (all) {
        struct ending *one = all;
        all = one->next;
        if (over) block_end(one->block);
        else block_put(one->block);
        free(one);
    }
    struct block block = over ? block_take(BLOCK_CONTEXT, context) : (struct block){0};
    if (block.kind == 0) return;
    slice_release(block.card, block.size);
    count_context(block.card, -1);
}

static CUresult destroy(CUcontext context, CUresult (*real)(CUcontext)) {
    struct ending *ending = begin_end((uintptr_t)context);
    CUresult result = real(context);
    finish_end(ending, (uintptr_t)context, result == CUDA_SUCCESS);
    return result;
}

CUresult cuCtxDestroy(CUcontext context) { return destroy(context, REAL(cuCtxDestroy)); }
CUresult cuCtxDestroy_v2(CUcontext context) { return destroy(context, REAL(cuCtxDestroy_v2)); }

static int primary_active(CUdevice device) {
    unsigned int flags;
    int active = 0;
    return REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) == CUDA_SUCCESS ? active : 1;
}

/* Its handle: retained and released once more, which changes nothing for the program. */
static CUcontext primary_context(CUdevice device) {
    CUcontext context = NULL;
    if (!primary_active(device) || REAL(cuDevicePrimaryCtxRetain)(&context, device) != CUDA_SUCCESS) return NULL;
    REAL(cuDevicePrimaryCtxRelease_v2)(device);
    return context;
}

static CUresult leave_primary(CUdevice device, CUresult (*real)(CUdevice)) {
    CUcontext context = primary_context(device);
    struct ending *ending = begin_end((uintptr_t)context);
    CUresult result = real(device);
    finish_end(ending, (uintptr_t)context, result == CUDA_SUCCESS && !primary_active(device));
    return result;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return leave_primary(device, REAL(cuDevicePrimaryCtxRelease)); }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return leave_primary(device, REAL(cuDevicePrimaryCtxRelease_v2)); }
CUresult cuDevicePrimaryCtxReset(CUdevice device) { return leave_primary(device, REAL(cuDevicePrimaryCtxReset)); }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return leave_primary(device, REAL(cuDevicePrimaryCtxReset_v2)); }
