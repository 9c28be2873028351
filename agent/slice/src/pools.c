/* Stream-ordered pools and graph memory: both keep memory after a free.
 * So a pool is charged the larger of what is handed out and what it holds from the driver, and what it keeps unused is
 * given back before a request of this process is refused. Each card's graph memory counts as one more pool. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "account.h"
#include "core.h"

struct pool {
    struct pool *next;
    CUmemoryPool handle; /* NULL: the card's graph memory */
    CUdevice device;
    int card;
    bool destroyed;
    uint64_t live, charged;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct pool *pools;
static _Atomic int slack; /* pools charged more than is handed out, when last looked at */

static uint64_t reserved(struct pool *pool) {
    uint64_t bytes = 0;
    CUresult result = pool->destroyed ? CUDA_SUCCESS
                      : pool->handle ? REAL(cuMemPoolGetAttribute)(pool->handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes)
                      : REAL(cuDeviceGetGraphMemAttribute)(pool->device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes);
    return result == CUDA_SUCCESS ? bytes : 0;
}

/* Make the charge max(live, reserved): false when it would have to grow and may not. */
static bool settle_pool(struct pool *pool, bool force) {
    uint64_t held = reserved(pool), target = held > pool->live ? held : pool->live;
    if (target > pool->charged) {
        if (force) slice_force(pool->card, target - pool->charged);
        else if (!slice_charge(pool->card, target - pool->charged)) return false;
    } else {
        slice_release(pool->card, pool->charged - target);
    }
    pool->charged = target;
    if (pool->charged > pool->live) atomic_store(&slack, 1);
    return true;
}

static void trim(struct pool *pool) {
    if (pool->destroyed || pool->charged <= pool->live) return;
    if (pool->handle) REAL(cuMemPoolTrimTo)(pool->handle, 0);
    else REAL(cuDeviceGraphMemTrim)(pool->device);
    settle_pool(pool, true);
}

static void give_back(int card) {
    for (struct pool *pool = pools; pool; pool = pool->next)
        if (pool->card == card) trim(pool);
}

void pools_give_back(int card) {
    pthread_mutex_lock(&mutex);
    give_back(card);
    pthread_mutex_unlock(&mutex);
}

void pools_settle_all(void) {
    if (atomic_load_explicit(&slack, memory_order_relaxed) == 0) return;
    pthread_mutex_lock(&mutex);
    atomic_store(&slack, 0);
    for (struct pool *pool = pools; pool; pool = pool->next) settle_pool(pool, true);
    pthread_mutex_unlock(&mutex);
}

static struct pool *find_pool(CUmemoryPool handle, CUdevice device) {
    struct pool *pool = pools;
    while (pool && (pool->destroyed || pool->handle != handle || (!handle && pool->device != device))) pool = pool->next;
    return pool;
}

static void prune(void) { /* pools that are destroyed and empty */
    for (struct pool **at = &pools; *at;) {
        struct pool *pool = *at;
        if (pool->destroyed && pool->live == 0 && pool->charged == 0) *at = pool->next, free(pool);
        else at = &pool->next;
    }
}

static struct pool *add_pool(CUmemoryPool handle, CUdevice device, int card) {
    struct pool *pool = find_pool(handle, device);
    if (pool || !(pool = calloc(1, sizeof *pool))) return pool;
    *pool = (struct pool){.next = pools, .handle = handle, .device = device, .card = card};
    return pools = pool;
}

/* -- which pool, which card ---------------------------------------------------------------------------------------- */

static CUresult device_of_stream(CUstream stream, bool per_thread, CUdevice *device) {
    CUcontext context = NULL, popped;
    if ((uintptr_t)stream > 2) { /* not one of the driver's two default streams */
        CUresult result = per_thread ? REAL(cuStreamGetCtx_ptsz)(stream, &context) : REAL(cuStreamGetCtx)(stream, &context);
        if (result != CUDA_SUCCESS) context = NULL;
    }
    if (!context || REAL(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS) return REAL(cuCtxGetDevice)(device);
    CUresult result = REAL(cuCtxGetDevice)(device);
    REAL(cuCtxPopCurrent_v2)(&popped);
    return result;
}

static CUdevice device_of_pool(CUmemoryPool handle, CUdevice fallback) { /* one that we did not see being made */
    int count = 0;
    REAL(cuDeviceGetCount)(&count);
    for (CUdevice device = 0; device < count; device++) {
        CUmemoryPool other = NULL;
        if (REAL(cuDeviceGetDefaultMemPool)(&other, device) == CUDA_SUCCESS && other == handle) return device;
    }
    return fallback;
}

/* -- allocations --------------------------------------------------------------------------------------------------- */

static bool pool_reserve(struct pool *pool, uint64_t size) {
    uint64_t want = pool->live + size;
    for (int attempt = 0; attempt < 2 && want >= size; attempt++) {
        uint64_t held = reserved(pool), target = held > want ? held : want;
        if (target <= pool->charged || slice_charge(pool->card, target - pool->charged)) {
            pool->charged = target > pool->charged ? target : pool->charged;
            pool->live = want;
            return true;
        }
        if (attempt > 0) break;
        give_back(pool->card);
        slice_reap();
    }
    slice_refused(pool->card);
    return false;
}

static void pool_release(struct pool *pool, uint64_t size) {
    pool->live -= size < pool->live ? size : pool->live;
    settle_pool(pool, true);
}

void pool_freed(void *owner, uint64_t size) {
    pthread_mutex_lock(&mutex);
    pool_release(owner, size);
    pthread_mutex_unlock(&mutex);
}

struct request { CUdeviceptr *pointer; size_t size; CUmemoryPool pool; CUstream stream; bool per_thread, named; };

static CUresult real_allocate(struct request *r) {
    if (r->named) return r->per_thread ? REAL(cuMemAllocFromPoolAsync_ptsz)(r->pointer, r->size, r->pool, r->stream)
                                       : REAL(cuMemAllocFromPoolAsync)(r->pointer, r->size, r->pool, r->stream);
    return r->per_thread ? REAL(cuMemAllocAsync_ptsz)(r->pointer, r->size, r->stream)
                         : REAL(cuMemAllocAsync)(r->pointer, r->size, r->stream);
}

static void undo(struct request *r, struct pool *pool) { /* the pool grew by more than there was room for */
    if (r->per_thread) REAL(cuMemFreeAsync_ptsz)(*r->pointer, r->stream), REAL(cuStreamSynchronize_ptsz)(r->stream);
    else REAL(cuMemFreeAsync)(*r->pointer, r->stream), REAL(cuStreamSynchronize)(r->stream);
    pthread_mutex_lock(&mutex);
    pool->live -= r->size < pool->live ? r->size : pool->live;
    REAL(cuMemPoolTrimTo)(pool->handle, 0);
    settle_pool(pool, true);
    pthread_mutex_unlock(&mutex);
    slice_refused(pool->card);
}

static CUresult allocate_from(struct request *r, struct pool *pool) {
    pthread_mutex_lock(&mutex);
    bool fits = pool_reserve(pool, r->size);
    pthread_mutex_unlock(&mutex);
    if (!fits) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = real_allocate(r);
    pthread_mutex_lock(&mutex);
    if (result != CUDA_SUCCESS) pool_release(pool, r->size);
    else fits = settle_pool(pool, false);
    pthread_mutex_unlock(&mutex);
    if (result != CUDA_SUCCESS) return result;
    if (fits && keep(BLOCK_POOLED, *r->pointer, pool->card, r->size, pool)) return CUDA_SUCCESS;
    undo(r, pool);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* In a stream that is being captured the call makes a node of a graph. */
static bool captured_graph(struct request *r, CUgraph *graph) {
    int status = 0;
    *graph = NULL;
    CUresult result = r->per_thread ? REAL(cuStreamGetCaptureInfo_v2_ptsz)(r->stream, &status, NULL, graph, NULL, NULL)
                                    : REAL(cuStreamGetCaptureInfo_v2)(r->stream, &status, NULL, graph, NULL, NULL);
    return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE && *graph;
}

static CUresult allocate(struct request r) {
    CUdevice device;
    CUgraph graph;
    int card;
    CHECK_OPEN();
    CUresult result = device_of_stream(r.stream, r.per_thread, &device);
    if (result == CUDA_SUCCESS && !r.named) result = REAL(cuDeviceGetMemPool)(&r.pool, device);
    if (result != CUDA_SUCCESS) return result;
    if (!r.pool) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    struct pool *pool = find_pool(r.pool, 0);
    if (!pool) {
        device = r.named ? device_of_pool(r.pool, device) : device;
        result = card_of_device(device, &card);
        pool = result == CUDA_SUCCESS ? add_pool(r.pool, device, card) : NULL;
    }
    pthread_mutex_unlock(&mutex);
    if (!pool) return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
    if (!captured_graph(&r, &graph)) return allocate_from(&r, pool);
    result = graph_nodes_add(graph, pool->device, r.size);
    if (result == CUDA_SUCCESS && (result = real_allocate(&r)) != CUDA_SUCCESS) graph_nodes_undo(graph);
    return result;
}

CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t size, CUstream stream) {
    return allocate((struct request){.pointer = pointer, .size = size, .stream = stream});
}

CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t size, CUstream stream) {
    return allocate((struct request){.pointer = pointer, .size = size, .stream = stream, .per_thread = true});
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream stream) {
    return allocate((struct request){.pointer = pointer, .size = size, .pool = pool, .stream = stream, .named = true});
}

CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t size, CUmemoryPool pool, CUstream stream) {
    return allocate((struct request){
        .pointer = pointer, .size = size, .pool = pool, .stream = stream, .named = true, .per_thread = true});
}

/* -- the pools themselves ------------------------------------------------------------------------------------------ */

CUresult cuMemPoolCreate(CUmemoryPool *handle, const CUmemPoolProps *props) {
    int card = -1;
    CHECK_OPEN();
    CUresult result = REAL(cuMemPoolCreate)(handle, props);
    if (result != CUDA_SUCCESS || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return result;
    if ((result = card_of_device(props->location.id, &card)) == CUDA_SUCCESS) {
        pthread_mutex_lock(&mutex);
        prune();
        struct pool *pool = add_pool(*handle, props->location.id, card);
        pthread_mutex_unlock(&mutex);
        if (pool) return CUDA_SUCCESS;
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    REAL(cuMemPoolDestroy)(*handle);
    return result;
}

/* A destroyed pool lasts until its last block is freed; the handle may be given out anew before that. */
CUresult cuMemPoolDestroy(CUmemoryPool handle) {
    CHECK_OPEN();
    pthread_mutex_lock(&mutex);
    struct pool *pool = find_pool(handle, 0);
    if (pool) pool->destroyed = true;
    CUresult result = REAL(cuMemPoolDestroy)(handle);
    if (pool && result != CUDA_SUCCESS) pool->destroyed = false;
    if (pool) settle_pool(pool, true);
    pthread_mutex_unlock(&mutex);
    return result;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t bytes) {
    CHECK_OPEN();
    CUresult result = REAL(cuMemPoolTrimTo)(handle, bytes);
    pthread_mutex_lock(&mutex);
    struct pool *pool = find_pool(handle, 0);
    if (pool) settle_pool(pool, true);
    pthread_mutex_unlock(&mutex);
    return result;
}

/* A pool gives memory back to the driver when the program waits for its work: look again then, if any kept some. */
static CUresult waited(CUresult result) {
    pools_settle_all();
    return result;
}

CUresult cuCtxSynchronize(void) { return waited(REAL(cuCtxSynchronize)()); }
CUresult cuCtxSynchronize_v2(CUcontext context) { return waited(REAL(cuCtxSynchronize_v2)(context)); }
CUresult cuStreamSynchronize(CUstream stream) { return waited(REAL(cuStreamSynchronize)(stream)); }
CUresult cuStreamSynchronize_ptsz(CUstream stream) { return waited(REAL(cuStreamSynchronize_ptsz)(stream)); }
CUresult cuEventSynchronize(CUevent event) { return waited(REAL(cuEventSynchronize)(event)); }

/* -- graph memory -------------------------------------------------------------------------------------------------- */

CUresult cuDeviceGraphMemTrim(CUdevice device) {
    CHECK_OPEN();
    CUresult result = REAL(cuDeviceGraphMemTrim)(device);
    pthread_mutex_lock(&mutex);
    struct pool *pool = find_pool(NULL, device);
    if (pool) settle_pool(pool, true);
    pthread_mutex_unlock(&mutex);
    return result;
}

void *graph_pool_grow(CUdevice device, int card, uint64_t size) {
    pthread_mutex_lock(&mutex);
    struct pool *pool = add_pool(NULL, device, card);
    if (pool && !pool_reserve(pool, size)) pool = NULL;
    pthread_mutex_unlock(&mutex);
    return pool;
}
