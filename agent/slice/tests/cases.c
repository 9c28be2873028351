#define _GNU_SOURCE
#include "cases.h"

#include <stdio.h>
#include <string.h>

#include "../src/driver.h"

static find_function *find;
static uint64_t limit;
static int checks, failures;

static void (*function_named(const char *name))(void) {
    void (*function)(void) = NULL;
    void *found = find(name);
    if (!found) printf("FAIL %s: not found\n", name), failures++;
    memcpy(&function, &found, sizeof function);
    return function;
}
#define CALL(name) ((__typeof__(&name))function_named(#name))
#define CHECK(what, condition) do { checks++; if (!(condition)) { failures++; printf("FAIL %s: %s (line %d)\n", what, #condition, __LINE__); } } while (0)

int cuCtxSetCurrent(CUcontext context);
int cuStreamCreate(CUstream *stream, unsigned int flags);
int cuGraphCreate(CUgraph *graph, unsigned int flags);
int cuGraphLaunch(CUgraphExec exec, CUstream stream);
int cuStreamBeginCapture_v2(CUstream stream, int mode);
int cuStreamEndCapture(CUstream stream, CUgraph *graph);
int cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment, CUdeviceptr at, unsigned long long flags);
int cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer);
int cuMemExportToShareableHandle(void *os_handle, CUmemGenericAllocationHandle handle, int type, unsigned long long flags);
int cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer);
int cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned shared, CUstream s, void **p, void **x);
int cuTexRefSetMipmapLevelBias(void *reference, float bias);

static uint64_t room(void) { /* what the program is told is free */
    size_t free_bytes = 0, total = 0;
    if (CALL(cuMemGetInfo_v2)(&free_bytes, &total) != CUDA_SUCCESS) return UINT64_MAX;
    return total == limit ? free_bytes : UINT64_MAX - 1;
}

/* -- one allocator each: allocate exactly this many bytes, and free them -------------------------------------------- */

struct held { uint64_t key, other; };
struct kind {
    const char *name;
    uint64_t grain; /* sizes must be a multiple of this */
    CUresult (*allocate)(struct held *held, uint64_t size);
    CUresult (*release)(struct held *held);
};

static CUresult free_pointer(struct held *held) { return CALL(cuMemFree_v2)(held->key); }
static CUresult alloc_plain(struct held *held, uint64_t size) { return CALL(cuMemAlloc_v2)(&held->key, size); }
static CUresult alloc_managed(struct held *held, uint64_t size) { return CALL(cuMemAllocManaged)(&held->key, size, 1); }
static CUresult alloc_pitch(struct held *held, uint64_t size) {
    size_t pitch;
    return CALL(cuMemAllocPitch_v2)(&held->key, &pitch, 512, size / 512, 4);
}
static CUresult alloc_narrow(struct held *held, uint64_t size) { /* rows of 100 bytes take 512 */
    size_t pitch;
    return CALL(cuMemAllocPitch_v2)(&held->key, &pitch, 100, size / 512, 4);
}

static CUresult waited(CUresult result) { return result ? result : CALL(cuStreamSynchronize)(NULL); }
static CUresult alloc_async(struct held *held, uint64_t size) { return CALL(cuMemAllocAsync)(&held->key, size, NULL); }
static CUresult alloc_async_ptsz(struct held *held, uint64_t size) { return CALL(cuMemAllocAsync_ptsz)(&held->key, size, NULL); }
static CUresult free_async(struct held *held) { return waited(CALL(cuMemFreeAsync)(held->key, NULL)); }
static CUresult free_async_ptsz(struct held *held) {
    CUresult result = CALL(cuMemFreeAsync_ptsz)(held->key, NULL);
    return result ? result : CALL(cuStreamSynchronize_ptsz)(NULL);
}
static CUresult alloc_async_stream(struct held *held, uint64_t size) {
    CUstream stream;
    CUresult result = CALL(cuStreamCreate)(&stream, 0);
    return result ? result : CALL(cuMemAllocAsync)(&held->key, size, stream);
}
static CUmemoryPool pool;
static CUresult alloc_pool(struct held *held, uint64_t size) { return CALL(cuMemAllocFromPoolAsync)(&held->key, size, pool, NULL); }
static CUresult alloc_pool_ptsz(struct held *held, uint64_t size) { return CALL(cuMemAllocFromPoolAsync_ptsz)(&held->key, size, pool, NULL); }
static CUresult free_then_context(struct held *held) {
    CUresult result = CALL(cuMemFreeAsync)(held->key, NULL);
    return result ? result : CALL(cuCtxSynchronize)();
}
static CUresult free_then_context_v2(struct held *held) {
    CUresult result = CALL(cuMemFreeAsync)(held->key, NULL);
    return result ? result : CALL(cuCtxSynchronize_v2)(NULL);
}
static CUresult free_then_event(struct held *held) {
    CUresult result = CALL(cuMemFreeAsync)(held->key, NULL);
    return result ? result : CALL(cuEventSynchronize)(NULL);
}
static CUresult free_then_trim(struct held *held) {
    CUresult result = CALL(cuMemFreeAsync)(held->key, NULL);
    return result ? result : CALL(cuMemPoolTrimTo)(pool, 0);
}

static CUmemAllocationProp on_card_0 = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static CUresult create(struct held *held, uint64_t size) {
    unsigned long long handle = 0;
    CUresult result = CALL(cuMemCreate)(&handle, size, &on_card_0, 0);
    held->key = handle, held->other = size;
    return result;
}
static CUresult release_handle(struct held *held) { return CALL(cuMemRelease)(held->key); }
static CUresult create_mapped(struct held *held, uint64_t size) { /* the handle is released at once, the mapping stays */
    CUdeviceptr at;
    CUresult result = create(held, size);
    if (result) return result;
    CALL(cuMemAddressReserve)(&at, size, 0, 0, 0);
    result = CALL(cuMemMap)(at, size, 0, held->key, 0);
    CALL(cuMemRelease)(held->key);
    held->key = at;
    return result;
}
static CUresult unmap(struct held *held) { return CALL(cuMemUnmap)(held->key, held->other); }
static CUresult create_retained(struct held *held, uint64_t size) { /* only a handle got back from the mapping is left */
    unsigned long long handle = 0;
    void *at;
    CUresult result = create_mapped(held, size);
    if (result) return result;
    memcpy(&at, &held->key, sizeof at);
    result = CALL(cuMemRetainAllocationHandle)(&handle, at);
    CALL(cuMemUnmap)(held->key, size);
    held->key = handle;
    return result;
}

static CUDA_ARRAY3D_DESCRIPTOR flat(uint64_t size) { return (CUDA_ARRAY3D_DESCRIPTOR){.Width = size, .Format = 1, .NumChannels = 1}; }
static CUresult array(struct held *held, uint64_t size) {
    CUDA_ARRAY_DESCRIPTOR d = {.Width = size / 2, .Height = 2, .Format = 1, .NumChannels = 1};
    CUarray made = NULL;
    CUresult result = CALL(cuArrayCreate_v2)(&made, &d);
    return held->key = (uintptr_t)made, result;
}
static CUresult array_3d(struct held *held, uint64_t size) {
    CUDA_ARRAY3D_DESCRIPTOR d = flat(size);
    CUarray made = NULL;
    CUresult result = CALL(cuArray3DCreate_v2)(&made, &d);
    return held->key = (uintptr_t)made, result;
}
static CUresult end_array(struct held *held) { return CALL(cuArrayDestroy)((CUarray)(uintptr_t)held->key); }
static CUresult mipmap(struct held *held, uint64_t size) { /* two levels: 2/3 and 1/3 */
    CUDA_ARRAY3D_DESCRIPTOR d = flat(size / 3 * 2);
    CUmipmappedArray made = NULL;
    CUresult result = CALL(cuMipmappedArrayCreate)(&made, &d, 2);
    return held->key = (uintptr_t)made, result;
}
static CUresult end_mipmap(struct held *held) { return CALL(cuMipmappedArrayDestroy)((CUmipmappedArray)(uintptr_t)held->key); }

static CUresult node_in(struct held *held, uint64_t size, int version) {
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUgraph graph;
    CUgraphNode node;
    CALL(cuGraphCreate)(&graph, 0);
    held->key = (uintptr_t)graph;
    params.of.alloc = (CUDA_MEM_ALLOC_NODE_PARAMS){.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, .bytesize = size};
    CUresult result = version == 0 ? CALL(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &params.of.alloc)
                      : version == 1 ? CALL(cuGraphAddNode)(&node, graph, NULL, 0, &params)
                      : version == 2 ? CALL(cuGraphAddNode_v2)(&node, graph, NULL, NULL, 0, &params)
                                     : CALL(cuGraphAddNode_v3)(&node, graph, NULL, NULL, 0, &params);
    if (result) CALL(cuGraphDestroy)(graph);
    return result;
}
static CUresult node(struct held *held, uint64_t size) { return node_in(held, size, 0); }
static CUresult node_1(struct held *held, uint64_t size) { return node_in(held, size, 1); }
static CUresult node_2(struct held *held, uint64_t size) { return node_in(held, size, 2); }
static CUresult node_3(struct held *held, uint64_t size) { return node_in(held, size, 3); }
static CUresult end_graph(struct held *held) { return CALL(cuGraphDestroy)((CUgraph)(uintptr_t)held->key); }
static CUresult captured(struct held *held, uint64_t size) {
    CUstream stream;
    CUgraph graph;
    CUdeviceptr pointer;
    CALL(cuStreamCreate)(&stream, 0);
    CALL(cuStreamBeginCapture_v2)(stream, 0);
    CUresult result = CALL(cuMemAllocAsync)(&pointer, size, stream);
    CALL(cuStreamEndCapture)(stream, &graph);
    held->key = (uintptr_t)graph;
    if (result) CALL(cuGraphDestroy)(graph);
    return result;
}
static CUresult exec_of(struct held *held, uint64_t size, int version) { /* launched, its graph already gone */
    CUgraphExec exec = NULL;
    CUresult result = node(held, size);
    if (result) return result;
    CUgraph graph = (CUgraph)(uintptr_t)held->key;
    result = version == 0 ? CALL(cuGraphInstantiateWithFlags)(&exec, graph, 0)
             : version == 1 ? CALL(cuGraphInstantiate)(&exec, graph, NULL, NULL, 0)
             : version == 2 ? CALL(cuGraphInstantiate_v2)(&exec, graph, NULL, NULL, 0)
             : version == 3 ? CALL(cuGraphInstantiateWithParams)(&exec, graph, NULL)
                            : CALL(cuGraphInstantiateWithParams_ptsz)(&exec, graph, NULL);
    CALL(cuGraphDestroy)(graph);
    held->key = (uintptr_t)exec;
    return result ? result : CALL(cuGraphLaunch)(exec, NULL);
}
static CUresult exec(struct held *held, uint64_t size) { return exec_of(held, size, 0); }
static CUresult exec_1(struct held *held, uint64_t size) { return exec_of(held, size, 1); }
static CUresult exec_2(struct held *held, uint64_t size) { return exec_of(held, size, 2); }
static CUresult exec_3(struct held *held, uint64_t size) { return exec_of(held, size, 3); }
static CUresult exec_4(struct held *held, uint64_t size) { return exec_of(held, size, 4); }
static CUresult end_exec(struct held *held) {
    CALL(cuGraphExecDestroy)((CUgraphExec)(uintptr_t)held->key);
    return CALL(cuDeviceGraphMemTrim)(0);
}

/* Imports: the handle is made by hand, as if by another process (the double's handles carry size and card). */
static CUresult ipc(struct held *held, uint64_t size, int version) {
    struct { uint64_t size; int card; } shared = {size, 0};
    CUipcMemHandle handle = {{0}};
    memcpy(&handle, &shared, sizeof shared);
    return version == 2 ? CALL(cuIpcOpenMemHandle_v2)(&held->key, handle, 1) : CALL(cuIpcOpenMemHandle)(&held->key, handle, 1);
}
static CUresult ipc_1(struct held *held, uint64_t size) { return ipc(held, size, 1); }
static CUresult ipc_2(struct held *held, uint64_t size) { return ipc(held, size, 2); }
static CUresult close_ipc(struct held *held) { return CALL(cuIpcCloseMemHandle)(held->key); }
static CUresult pool_import(struct held *held, uint64_t size) {
    struct { uint64_t size; int card; } shared = {size, 0};
    CUmemPoolPtrExportData data = {{0}};
    memcpy(&data, &shared, sizeof shared);
    return CALL(cuMemPoolImportPointer)(&held->key, pool, &data);
}
static CUresult import(struct held *held, uint64_t size) {
    struct { uint64_t size; int card; } shared = {size, 0};
    unsigned long long handle = 0;
    CUdeviceptr at;
    FILE *file = tmpfile();
    if (!file || fwrite(&shared, sizeof shared, 1, file) != 1 || fflush(file)) return -1;
    CUresult result = CALL(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)fileno(file), 1);
    fclose(file);
    if (result) return result;
    CALL(cuMemAddressReserve)(&at, size, 0, 0, 0);
    result = CALL(cuMemMap)(at, size, 0, handle, 0);
    CALL(cuMemRelease)(handle);
    return held->key = at, held->other = size, result;
}

static const struct kind kinds[] = {
    {"cuMemAlloc", 1, alloc_plain, free_pointer},
    {"cuMemAllocManaged", 1, alloc_managed, free_pointer},
    {"cuMemAllocPitch", 512, alloc_pitch, free_pointer},
    {"cuMemAllocPitch, rows filled up", 512, alloc_narrow, free_pointer},
    {"cuMemAllocAsync", 1, alloc_async, free_async},
    {"cuMemAllocAsync_ptsz", 1, alloc_async_ptsz, free_async_ptsz},
    {"cuMemAllocAsync, own stream", 1, alloc_async_stream, free_async},
    {"cuMemAllocAsync, cuMemFree", 1, alloc_async, free_pointer},
    {"cuMemAllocFromPoolAsync", 1, alloc_pool, free_then_context},
    {"cuMemAllocFromPoolAsync_ptsz", 1, alloc_pool_ptsz, free_then_event},
    {"cuMemAllocFromPoolAsync, cuMemPoolTrimTo", 1, alloc_pool, free_then_trim},
    {"cuMemAllocFromPoolAsync, cuCtxSynchronize_v2", 1, alloc_pool, free_then_context_v2},
    {"cuMemCreate", 1, create, release_handle},
    {"cuMemCreate, mapped", 1, create_mapped, unmap},
    {"cuMemCreate, retained", 1, create_retained, release_handle},
    {"cuMemImportFromShareableHandle", 1, import, unmap},
    {"cuArrayCreate", 2, array, end_array},
    {"cuArray3DCreate", 1, array_3d, end_array},
    {"cuMipmappedArrayCreate", 3, mipmap, end_mipmap},
    {"cuGraphAddMemAllocNode", 1, node, end_graph},
    {"cuGraphAddNode", 1, node_1, end_graph},
    {"cuGraphAddNode_v2", 1, node_2, end_graph},
    {"cuGraphAddNode_v3", 1, node_3, end_graph},
    {"captured cuMemAllocAsync", 1, captured, end_graph},
    {"cuGraphInstantiateWithFlags", 1, exec, end_exec},
    {"cuGraphInstantiate", 1, exec_1, end_exec},
    {"cuGraphInstantiate_v2", 1, exec_2, end_exec},
    {"cuGraphInstantiateWithParams", 1, exec_3, end_exec},
    {"cuGraphInstantiateWithParams_ptsz", 1, exec_4, end_exec},
    {"cuIpcOpenMemHandle", 1, ipc_1, close_ipc},
    {"cuIpcOpenMemHandle_v2", 1, ipc_2, close_ipc},
    {"cuMemPoolImportPointer", 1, pool_import, free_pointer},
};

/* To the byte: all but a little, one grain too many, exactly the little, one byte more; then all of it again. */
static void edge(const struct kind *kind) {
    struct held most, little, more, all;
    uint64_t small = kind->grain * 4, spare = limit % kind->grain;
    CHECK(kind->name, room() == limit);
    CHECK(kind->name, kind->allocate(&more, limit + kind->grain) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(kind->name, kind->allocate(&most, limit - spare - small) == CUDA_SUCCESS);
    CHECK(kind->name, room() == small + spare);
    CHECK(kind->name, kind->allocate(&more, small + kind->grain) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(kind->name, room() == small + spare);
    CHECK(kind->name, kind->allocate(&little, small) == CUDA_SUCCESS);
    CHECK(kind->name, room() == spare);
    CUdeviceptr byte;
    CHECK(kind->name, CALL(cuMemAlloc_v2)(&byte, spare + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(kind->name, kind->release(&most) == CUDA_SUCCESS);
    CHECK(kind->name, kind->release(&little) == CUDA_SUCCESS);
    CHECK(kind->name, room() == limit);
    CHECK(kind->name, kind->allocate(&all, limit - spare) == CUDA_SUCCESS);
    CHECK(kind->name, kind->release(&all) == CUDA_SUCCESS);
    CHECK(kind->name, room() == limit);
}

/* -- everything that is not an allocator ---------------------------------------------------------------------------- */

static void refused_calls(void) {
    unsigned int word, other;
    CUarray made;
    CHECK("32-bit", CALL(cuMemAlloc)(&word, 16) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK("32-bit", CALL(cuMemAllocPitch)(&word, &other, 16, 1, 4) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK("32-bit", CALL(cuMemFree)(16) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK("32-bit", CALL(cuMemGetInfo)(&word, &other) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK("32-bit", CALL(cuDeviceTotalMem)(&word, 0) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK("32-bit", CALL(cuArrayCreate)(&made, NULL) == CUDA_ERROR_NOT_SUPPORTED);
    CHECK("32-bit", CALL(cuArray3DCreate)(&made, NULL) == CUDA_ERROR_NOT_SUPPORTED);
}

static void other_cards(void) {
    size_t bytes = 1, total = 1;
    CUcontext context, back;
    CUdeviceptr pointer;
    CHECK("total", CALL(cuDeviceTotalMem_v2)(&bytes, 0) == CUDA_SUCCESS && bytes == limit);
    CHECK("total", CALL(cuDeviceTotalMem_v2)(&bytes, 1) == CUDA_SUCCESS && bytes == limit / 2);
    CHECK("total", CALL(cuDeviceTotalMem_v2)(&bytes, 2) == CUDA_SUCCESS && bytes == 0);
    CALL(cuCtxGetCurrent)(&back);
    for (int card = 1; card < 3; card++) {
        CALL(cuDevicePrimaryCtxRetain)(&context, card);
        CALL(cuCtxSetCurrent)(context);
        uint64_t share = card == 1 ? limit / 2 : 0;
        CHECK("card", CALL(cuMemGetInfo_v2)(&bytes, &total) == CUDA_SUCCESS && bytes == share && total == share);
        CHECK("card", CALL(cuMemAlloc_v2)(&pointer, share + 1) == CUDA_ERROR_OUT_OF_MEMORY);
        if (share) {
            CHECK("card", CALL(cuMemAlloc_v2)(&pointer, share) == CUDA_SUCCESS);
            CALL(cuCtxSetCurrent)(back);
            CHECK("cards apart", room() == limit);
            CALL(cuCtxSetCurrent)(context);
        }
        CHECK("released", CALL(cuDevicePrimaryCtxRelease_v2)(card) == CUDA_SUCCESS); /* and what it held with it */
        CALL(cuCtxSetCurrent)(back);
    }
    CALL(cuDevicePrimaryCtxRetain)(&context, 1);
    CALL(cuCtxSetCurrent)(context);
    CHECK("after release", CALL(cuMemGetInfo_v2)(&bytes, &total) == CUDA_SUCCESS && bytes == limit / 2);
    CALL(cuMemAlloc_v2)(&pointer, 4096);
    CHECK("reset", CALL(cuDevicePrimaryCtxReset_v2)(1) == CUDA_SUCCESS);
    CALL(cuDevicePrimaryCtxRetain)(&context, 1);
    CHECK("after reset", CALL(cuMemGetInfo_v2)(&bytes, &total) == CUDA_SUCCESS && bytes == limit / 2);
    CALL(cuMemAlloc_v2)(&pointer, 4096);
    CHECK("old release", CALL(cuDevicePrimaryCtxRelease)(1) == CUDA_SUCCESS);
    CALL(cuDevicePrimaryCtxRetain)(&context, 1);
    CHECK("old reset", CALL(cuDevicePrimaryCtxReset)(1) == CUDA_SUCCESS);
    CALL(cuCtxSetCurrent)(back);
}

static void contexts(void) {
    CUcontext context = NULL, back;
    CUdeviceptr pointer;
    CUresult result;
    CALL(cuCtxGetCurrent)(&back);
    for (int version = 1; version <= 4; version++) {
        result = version == 1 ? CALL(cuCtxCreate)(&context, 0, 0) : version == 2 ? CALL(cuCtxCreate_v2)(&context, 0, 0)
                 : version == 3 ? CALL(cuCtxCreate_v3)(&context, NULL, 0, 0, 0) : CALL(cuCtxCreate_v4)(&context, NULL, 0, 0);
        CHECK("context", result == CUDA_SUCCESS);
        CHECK("context", CALL(cuMemAlloc_v2)(&pointer, limit) == CUDA_SUCCESS);
        CHECK("context", room() == 0);
        result = version == 1 ? CALL(cuCtxDestroy)(context) : CALL(cuCtxDestroy_v2)(context);
        CHECK("context", result == CUDA_SUCCESS);
        CALL(cuCtxSetCurrent)(back);
        CHECK("what it held ended with it", room() == limit);
    }
}

static void untouched(void) { /* through the trampolines: every argument arrives */
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **) = CALL(cuLaunchKernel);
    for (int i = 0; i < 2; i++) {
        CHECK("launch", launch((void *)"", 1, 2, 4, 8, 16, 32, 64, NULL, NULL, NULL) == 127);
        CHECK("float", CALL(cuTexRefSetMipmapLevelBias)(NULL, 1.25f) == 125);
    }
}

static void failed_frees(void) { /* a free that the driver refuses changes nothing */
    CUdeviceptr pointer;
    CHECK("free", CALL(cuMemAlloc_v2)(&pointer, 4096) == CUDA_SUCCESS);
    CHECK("free", CALL(cuMemFree_v2)(pointer + 1) != CUDA_SUCCESS);
    CHECK("free", room() == limit - 4096);
    CHECK("free", CALL(cuMemFree_v2)(pointer) == CUDA_SUCCESS);
    CHECK("twice", CALL(cuMemFree_v2)(pointer) != CUDA_SUCCESS);
    CHECK("twice", room() == limit);
    CHECK("nothing", CALL(cuMemAlloc_v2)(&pointer, 0) == CUDA_ERROR_INVALID_VALUE);
    CHECK("huge", CALL(cuMemAlloc_v2)(&pointer, SIZE_MAX) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK("huge", CALL(cuMemAllocManaged)(&pointer, SIZE_MAX - 4096, 1) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK("huge", room() == limit);
}

int run_cases(find_function *how, uint64_t bytes) {
    CUcontext context;
    CUmemPoolProps props = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    find = how, limit = bytes;
    CHECK("init", CALL(cuInit)(0) == CUDA_SUCCESS);
    CHECK("retain", CALL(cuDevicePrimaryCtxRetain)(&context, 0) == CUDA_SUCCESS);
    CALL(cuCtxSetCurrent)(context);
    CHECK("pool", CALL(cuMemPoolCreate)(&pool, &props) == CUDA_SUCCESS);
    for (const struct kind *kind = kinds; kind < kinds + sizeof kinds / sizeof *kinds; kind++) edge(kind);
    CHECK("pool", CALL(cuMemPoolDestroy)(pool) == CUDA_SUCCESS);
    refused_calls();
    other_cards();
    contexts();
    untouched();
    failed_frees();
    printf("%d checks, %d failed\n", checks, failures);
    fflush(stdout);
    return failures != 0;
}
