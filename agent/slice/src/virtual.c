/* Virtual memory management: memory lives while a handle or a mapping of it lives.
 * Programs commonly release the handle right after mapping, so the charge hangs on a counted record, not on the handle. */
#include <pthread.h>
#include <stdlib.h>

#include "account.h"
#include "core.h"

struct memory {
    int card, references; /* handles and mappings */
    bool imported;        /* its size is only learnt from its mappings */
    uint64_t size;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void memory_drop(void *owner) {
    struct memory *memory = owner;
    pthread_mutex_lock(&mutex);
    bool last = --memory->references == 0;
    pthread_mutex_unlock(&mutex);
    if (!last) return;
    slice_release(memory->card, memory->size);
    free(memory);
}

static void refer(struct memory *memory) {
    pthread_mutex_lock(&mutex);
    memory->references++;
    pthread_mutex_unlock(&mutex);
}

static struct memory *remember(int card, uint64_t size, bool imported, CUmemGenericAllocationHandle handle) {
    struct memory *memory = calloc(1, sizeof *memory);
    if (!memory) return NULL;
    *memory = (struct memory){.card = card, .references = 1, .size = size, .imported = imported};
    if (keep(BLOCK_HANDLE, handle, card, size, memory)) return memory;
    free(memory);
    return NULL;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags) {
    int card = -1;
    CHECK_OPEN();
    if (!prop || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return REAL(cuMemCreate)(handle, size, prop, flags);
    CUresult result = card_of_device(prop->location.id, &card);
    if (result != CUDA_SUCCESS) return result;
    if (!reserve(card, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    result = REAL(cuMemCreate)(handle, size, prop, flags);
    if (result == CUDA_SUCCESS && remember(card, size, false, *handle)) return CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) REAL(cuMemRelease)(*handle), result = CUDA_ERROR_OUT_OF_MEMORY;
    slice_release(card, size);
    return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    CHECK_OPEN();
    struct block block = block_take(BLOCK_HANDLE, handle);
    CUresult result = REAL(cuMemRelease)(handle);
    if (block.kind == 0) return result;
    if (result != CUDA_SUCCESS) block_put(block);
    else memory_drop(block.owner);
    return result;
}

/* Every retained reference is one more entry under the handle's key, and each release takes one of them away. */
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    struct block block;
    CHECK_OPEN();
    CUresult result = REAL(cuMemRetainAllocationHandle)(handle, address);
    if (result != CUDA_SUCCESS) return result;
    if (!block_get(BLOCK_HANDLE, *handle, &block) &&
        !block_get(BLOCK_MAPPING, (uint64_t)(uintptr_t)address, &block)) return result;
    refer(block.owner);
    if (!keep(BLOCK_HANDLE, *handle, block.card, 0, block.owner)) memory_drop(block.owner);
    return result;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle, int type) {
    CUmemAllocationProp prop = {0};
    int card = -1;
    CHECK_OPEN();
    CUresult result = REAL(cuMemImportFromShareableHandle)(handle, os_handle, type);
    if (result != CUDA_SUCCESS) return result;
    result = REAL(cuMemGetAllocationPropertiesFromHandle)(&prop, *handle);
    if (result == CUDA_SUCCESS && prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) result = card_of_device(prop.location.id, &card);
    if (result == CUDA_SUCCESS && remember(card, 0, true, *handle)) return CUDA_SUCCESS;
    REAL(cuMemRelease)(*handle);
    return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

/* An imported memory is at least as large as the furthest byte mapped of it. */
static bool grow_imported(struct memory *memory, uint64_t size) {
    pthread_mutex_lock(&mutex);
    uint64_t more = memory->imported && size > memory->size ? size - memory->size : 0;
    pthread_mutex_unlock(&mutex);
    if (more == 0) return true;
    if (!reserve(memory->card, more)) return false;
    pthread_mutex_lock(&mutex);
    memory->size += more; /* two threads at once: charged twice, given back together in the end */
    pthread_mutex_unlock(&mutex);
    return true;
}

CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    struct block block;
    CHECK_OPEN();
    if (!block_get(BLOCK_HANDLE, handle, &block)) return REAL(cuMemMap)(pointer, size, offset, handle, flags);
    if (offset > UINT64_MAX - size || !grow_imported(block.owner, offset + size)) return CUDA_ERROR_OUT_OF_MEMORY;
    refer(block.owner);
    CUresult result = REAL(cuMemMap)(pointer, size, offset, handle, flags);
    if (result == CUDA_SUCCESS && keep(BLOCK_MAPPING, pointer, block.card, size, block.owner)) return CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) REAL(cuMemUnmap)(pointer, size), result = CUDA_ERROR_OUT_OF_MEMORY;
    memory_drop(block.owner);
    return result;
}

/* One call may unmap many mappings that lie side by side. They are taken one by one before the real call and put back
 * if it fails; a chain through a local list keeps them apart from addresses that are mapped anew meanwhile. */
CUresult cuMemUnmap(CUdeviceptr pointer, size_t size) {
    struct taken { struct block block; struct taken *next; } *taken = NULL;
    CHECK_OPEN();
    for (CUdeviceptr at = pointer; at - pointer < size;) {
        struct taken *one = malloc(sizeof *one);
        if (!one) break; /* the rest stays charged: too much, never too little */
        one->block = block_take(BLOCK_MAPPING, at);
        one->next = taken;
        if (one->block.kind == 0 || one->block.size == 0) {
            free(one);
            break;
        }
        at += one->block.size;
        taken = one;
    }
    CUresult result = REAL(cuMemUnmap)(pointer, size);
    while (taken) {
        struct taken *one = taken;
        taken = one->next;
        if (result != CUDA_SUCCESS) block_put(one->block);
        else memory_drop(one->block.owner);
        free(one);
    }
    return result;
}
