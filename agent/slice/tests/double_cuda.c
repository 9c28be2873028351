/* A double of the driver for tests: cards without a GPU. It keeps books of what would lie on each card and, with
 * DOUBLE_STATE, shares them between processes, so that a test can see from outside whether a slice was ever exceeded.
 * DOUBLE_STATE=file  DOUBLE_POOL_CHUNK=bytes (how pools grow, default 1)  DOUBLE_ARRAY_ALIGN=bytes (default 1) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../src/driver.h"
#include "double_state.h"

enum { CARDS = 3, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, POOLS = 64 };
#define TOTAL (UINT64_C(32510) << 20) /* what a V100 with 32 GB sells */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t chunk = 1, array_align = 1, here[CARDS];
static struct double_state *state;
static char state_path[4096];

__attribute__((constructor)) static void begin(void) {
    const char *text;
    if ((text = getenv("DOUBLE_POOL_CHUNK"))) chunk = strtoull(text, NULL, 10);
    if ((text = getenv("DOUBLE_ARRAY_ALIGN"))) array_align = strtoull(text, NULL, 10);
    if (!(text = getenv("DOUBLE_STATE"))) return;
    snprintf(state_path, sizeof state_path, "%s", text);
    int descriptor = open(text, O_RDWR | O_CLOEXEC);
    void *map = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (map == MAP_FAILED) abort();
    close(descriptor);
    state = map;
}

/* -- the books ----------------------------------------------------------------------------------------------------- */

static bool exiting(uint32_t pid) { /* the kernel gives a dying process's memory back: from then on it counts as gone */
    char path[64], text[512], *at;
    unsigned int flags = 0;
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return true;
    ssize_t length = read(descriptor, text, sizeof text - 1);
    close(descriptor);
    if (length <= 0) return true;
    text[length] = 0;
    if (!(at = strrchr(text, ')')) || sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %u", &flags) != 1) return true;
    return (flags & 4) != 0; /* PF_EXITING */
}

static struct double_row *my_row(void) {
    uint32_t pid = (uint32_t)getpid();
    for (int i = 0; i < DOUBLE_ROWS; i++)
        if (atomic_load(&state->row[i].pid) == pid) return &state->row[i];
    for (int i = 0; i < DOUBLE_ROWS; i++) {
        uint32_t old = atomic_load(&state->row[i].pid);
        if (old != 0 && !exiting(old)) continue;
        for (int card = 0; card < DOUBLE_CARDS; card++) atomic_store(&state->row[i].used[card], 0);
        atomic_store(&state->row[i].pid, pid);
        return &state->row[i];
    }
    abort();
}

static void book(int card, int64_t change) { /* with the mutex held */
    here[card] += (uint64_t)change;
    if (!state) return;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    int descriptor = open(state_path, O_RDWR | O_CLOEXEC);
    while (fcntl(descriptor, F_OFD_SETLKW, &lock) != 0) {}
    struct double_row *mine = my_row();
    atomic_fetch_add(&mine->used[card], (uint64_t)change);
    uint64_t sum = 0;
    for (int i = 0; change > 0 && i < DOUBLE_ROWS; i++) {
        uint64_t used = atomic_load(&state->row[i].used[card]);
        if (used && (&state->row[i] == mine || !exiting(atomic_load(&state->row[i].pid)))) sum += used;
    }
    if (sum > atomic_load(&state->most[card])) atomic_store(&state->most[card], sum);
    atomic_fetch_add(&state->bookings, 1);
    close(descriptor); /* and the lock with it */
}

/* -- contexts ------------------------------------------------------------------------------------------------------ */

struct CUctx_st { int device; };
static struct CUctx_st primary[CARDS] = {{0}, {1}, {2}};
static int primary_count[CARDS];
static _Thread_local CUcontext stack[32];
static _Thread_local int depth;

static CUcontext current(void) { return depth ? stack[depth - 1] : NULL; }
static bool is_card(int device) { return device >= 0 && device < CARDS; }


/* As the driver does with CUDA_MPS_PIPE_DIRECTORY: without a daemon there it goes on alone; one that does not serve us is
 * an error (805, "MPS connection failed"); one that lets us wait is waited for. The double of tests/double_mps.py.txt. */
static CUresult come_to_mps(void) {
    static int line = -1; /* open as long as this program lives: that is how the daemon knows its clients */
    const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY"), *percent = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
    const char *limit = getenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    char words[200], answer[4] = "";
    if (!pipe || line >= 0) return CUDA_SUCCESS;
    snprintf(place.sun_path, sizeof place.sun_path, "%s/control", pipe);
    line = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (line < 0 || connect(line, (struct sockaddr *)&place, sizeof place) != 0) return CUDA_SUCCESS;
    int length = snprintf(words, sizeof words, "client %s %s\n", percent ? percent : "-", limit ? limit : "-");
    if (write(line, words, (size_t)length) != length) return 805;
    return read(line, answer, 3) == 3 && strcmp(answer, "ok\n") == 0 ? CUDA_SUCCESS : 805;
}
CUresult cuInit(unsigned int flags) { return flags ? CUDA_ERROR_INVALID_VALUE : come_to_mps(); }
int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version) { return *version = 13050, CUDA_SUCCESS; }
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal) { return is_card(ordinal) ? *device = ordinal, CUDA_SUCCESS : 101; }
CUresult cuDeviceGetCount(int *count) { return *count = CARDS, CUDA_SUCCESS; }
int cuDeviceGetName(char *name, int length, int device);
int cuDeviceGetName(char *name, int length, int device) { return snprintf(name, (size_t)length, "Doubled V100 %d", device), CUDA_SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = attribute == 75 ? 7 : attribute == 76 ? 0 : attribute == 10 ? 32 : attribute == 16 ? 80 : attribute == 41 ? 1 : 1;
    return CUDA_SUCCESS;
}
int cuDeviceGetPCIBusId(char *text, int length, int device);
int cuDeviceGetPCIBusId(char *text, int length, int device) { return snprintf(text, (size_t)length, "0000:%02x:00.0", device + 1), CUDA_SUCCESS; }
int cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
int cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) { return cuDeviceGetUuid(uuid, device); }
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    if (!is_card(device)) return 101;
    memset(uuid, 0, sizeof *uuid);
    uuid->bytes[15] = (unsigned char)(device + 1);
    return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { return is_card(device) ? *bytes = TOTAL, CUDA_SUCCESS : 101; }
CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice device) { return is_card(device) ? *bytes = 0xffffffff, CUDA_SUCCESS : 101; }

CUresult cuCtxGetCurrent(CUcontext *context) { return *context = current(), CUDA_SUCCESS; }
int cuCtxSetCurrent(CUcontext context);
int cuCtxSetCurrent(CUcontext context) {
    if (!context) depth = depth ? depth - 1 : 0;
    else if (depth) stack[depth - 1] = context;
    else stack[depth++] = context;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice *device) { return current() ? *device = current()->device, CUDA_SUCCESS : INVALID_CONTEXT; }
CUresult cuCtxPushCurrent_v2(CUcontext context) { return depth < 32 ? stack[depth++] = context, CUDA_SUCCESS : 1; }
CUresult cuCtxPopCurrent_v2(CUcontext *context) {
    if (!depth) return INVALID_CONTEXT;
    CUcontext old = stack[--depth];
    if (context) *context = old;
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active) {
    return *flags = 0, *active = primary_count[device] > 0, CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    if (!is_card(device)) return 101;
    pthread_mutex_lock(&mutex);
    primary_count[device]++;
    pthread_mutex_unlock(&mutex);
    return *context = &primary[device], CUDA_SUCCESS;
}

/* -- blocks -------------------------------------------------------------------------------------------------------- */

struct pool { bool used; int device; uint64_t live, reserved, threshold; };
static struct pool pools[POOLS] = {{.used = true, .device = 0}, {.used = true, .device = 1}, {.used = true, .device = 2}};
struct item {
    struct item *next;
    uint64_t key, size;
    int device;
    bool borrowed; /* imported: it lies in another process's books */
    CUcontext context;
    struct pool *pool;
};
static struct item *items;
static uint64_t next_address = UINT64_C(0x700000000000), free_addresses[4096];
static int free_count;

static uint64_t address(void) { /* the last one freed first, as the driver does: addresses are reused at once */
    return free_count ? free_addresses[--free_count] : (next_address += UINT64_C(1) << 36);
}
static CUresult put(uint64_t *key, uint64_t size, int device, struct pool *pool, bool borrowed) { /* mutex held */
    struct item *item = malloc(sizeof *item);
    if (!item) return CUDA_ERROR_OUT_OF_MEMORY;
    *key = address();
    *item = (struct item){items, *key, size, device, borrowed, current(), pool};
    items = item;
    if (!pool && !borrowed) book(device, (int64_t)size);
    return CUDA_SUCCESS;
}
static void settle(struct pool *pool) { /* what a pool gives back when somebody waits */
    uint64_t keep = (pool->live + chunk - 1) / chunk * chunk;
    uint64_t want = pool->reserved < pool->threshold ? pool->reserved : pool->threshold > keep ? pool->threshold : keep;
    if (want < keep) want = keep;
    if (want < pool->reserved) book(pool->device, (int64_t)want - (int64_t)pool->reserved), pool->reserved = want;
}
static void end_item(struct item *item) {
    if (item->pool) item->pool->live -= item->size;
    else if (!item->borrowed) book(item->device, -(int64_t)item->size);
    if (free_count < 4096) free_addresses[free_count++] = item->key;
    free(item);
}
static CUresult drop(uint64_t key, struct pool **pool) {
    for (struct item **at = &items; *at; at = &(*at)->next) {
        if ((*at)->key != key) continue;
        struct item *item = *at;
        if (pool) *pool = item->pool;
        *at = item->next;
        end_item(item);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}
static CUresult allocate(uint64_t *key, uint64_t size) {
    if (!current()) return INVALID_CONTEXT;
    if (size == 0) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    CUresult result = here[current()->device] + size > TOTAL ? CUDA_ERROR_OUT_OF_MEMORY : put(key, size, current()->device, NULL, false);
    pthread_mutex_unlock(&mutex);
    return result;
}
static CUresult release(uint64_t key) {
    struct pool *pool = NULL;
    pthread_mutex_lock(&mutex);
    CUresult result = drop(key, &pool);
    if (pool) settle(pool);
    pthread_mutex_unlock(&mutex);
    return result;
}
static void end_context(CUcontext context) {
    pthread_mutex_lock(&mutex);
    for (struct item **at = &items; *at;) {
        struct item *item = *at;
        if (item->context != context) at = &item->next;
        else *at = item->next, end_item(item);
    }
    pthread_mutex_unlock(&mutex);
}

CUresult cuCtxCreate_v2(CUcontext *context, unsigned int flags, CUdevice device) {
    (void)flags;
    if (!is_card(device) || !(*context = malloc(sizeof **context))) return 101;
    (*context)->device = device;
    return cuCtxPushCurrent_v2(*context);
}
CUresult cuCtxCreate(CUcontext *context, unsigned int flags, CUdevice device) { return cuCtxCreate_v2(context, flags, device); }
CUresult cuCtxCreate_v3(CUcontext *c, void *a, int n, unsigned int flags, CUdevice device) { return (void)a, (void)n, cuCtxCreate_v2(c, flags, device); }
CUresult cuCtxCreate_v4(CUcontext *c, void *p, unsigned int flags, CUdevice device) { return (void)p, cuCtxCreate_v2(c, flags, device); }
CUresult cuCtxDestroy_v2(CUcontext context) {
    end_context(context);
    if (current() == context) depth--;
    free(context);
    return CUDA_SUCCESS;
}
CUresult cuCtxDestroy(CUcontext context) { return cuCtxDestroy_v2(context); }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    if (!is_card(device) || primary_count[device] == 0) return INVALID_CONTEXT;
    if (--primary_count[device] == 0) end_context(&primary[device]);
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return end_context(&primary[device]), primary_count[device] = 0, CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxReset(CUdevice device) { return cuDevicePrimaryCtxReset_v2(device); }

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    if (!current()) return INVALID_CONTEXT;
    *total = TOTAL, *free_bytes = TOTAL - here[current()->device];
    return CUDA_SUCCESS;
}
CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total) { return *free_bytes = *total = 0xffffffff, CUDA_SUCCESS; }
CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size) { return allocate(pointer, size); }
CUresult cuMemAlloc(CUdeviceptr_v1 *pointer, unsigned int size) { return (void)size, *pointer = 16, CUDA_SUCCESS; }
CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t size, unsigned int flags) { return (void)flags, allocate(pointer, size); }
CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element) {
    (void)element;
    return *pitch = (width + 511) / 512 * 512, allocate(pointer, *pitch * height);
}
CUresult cuMemAllocPitch(CUdeviceptr_v1 *pointer, unsigned int *pitch, unsigned int w, unsigned int h, unsigned int e) {
    return (void)h, (void)e, *pointer = 16, *pitch = w, CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr pointer) { return release(pointer); }
CUresult cuMemFree(CUdeviceptr_v1 pointer) { return (void)pointer, CUDA_SUCCESS; }
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr pointer) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    for (struct item *item = items; item; item = item->next)
        if (item->key == pointer) *base = pointer, *size = item->size, result = CUDA_SUCCESS;
    pthread_mutex_unlock(&mutex);
    return result;
}
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr pointer) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    for (struct item *item = items; item && attribute == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL; item = item->next)
        if (item->key == pointer) *(int *)data = item->device, result = CUDA_SUCCESS;
    pthread_mutex_unlock(&mutex);
    return result;
}

/* -- between processes: the handle carries the size and the card ---------------------------------------------------- */

struct shared { uint64_t size; int device; };
int cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer);
int cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer) {
    CUdeviceptr base;
    struct shared shared = {0};
    if (cuMemGetAddressRange_v2(&base, &shared.size, pointer) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
    cuPointerGetAttribute(&shared.device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer);
    memcpy(handle, &shared, sizeof shared);
    return CUDA_SUCCESS;
}
static CUresult borrow(CUdeviceptr *pointer, const void *from) {
    struct shared shared;
    memcpy(&shared, from, sizeof shared);
    pthread_mutex_lock(&mutex);
    CUresult result = put(pointer, shared.size, shared.device, NULL, true);
    pthread_mutex_unlock(&mutex);
    return result;
}
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags) { return (void)flags, borrow(pointer, &handle); }
CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags) { return (void)flags, borrow(pointer, &handle); }
CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) { return release(pointer); }
int cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer);
int cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr pointer) { return cuIpcGetMemHandle((CUipcMemHandle *)data, pointer); }
CUresult cuMemPoolImportPointer(CUdeviceptr *pointer, CUmemoryPool pool, CUmemPoolPtrExportData *data) { return (void)pool, borrow(pointer, data); }

/* -- virtual memory ------------------------------------------------------------------------------------------------ */

struct memory { struct memory *next; uint64_t size; int device, handles, maps; bool borrowed; };
struct map { struct map *next; uint64_t pointer, size; struct memory *memory; };
static struct map *maps;

static void drop_memory(struct memory *memory) {
    if (memory->handles + memory->maps > 0) return;
    if (!memory->borrowed) book(memory->device, -(int64_t)memory->size);
    free(memory);
}
static struct memory *handle_memory(CUmemGenericAllocationHandle handle) { return (struct memory *)(uintptr_t)handle; }
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags) {
    struct memory *memory = calloc(1, sizeof *memory);
    (void)flags;
    if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
    *memory = (struct memory){.size = size, .device = prop->location.id, .handles = 1};
    pthread_mutex_lock(&mutex);
    book(memory->device, (int64_t)size);
    pthread_mutex_unlock(&mutex);
    return *handle = (uintptr_t)memory, CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    pthread_mutex_lock(&mutex);
    handle_memory(handle)->handles--;
    drop_memory(handle_memory(handle));
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *at) {
    for (struct map *map = maps; map; map = map->next)
        if (map->pointer == (uintptr_t)at) return map->memory->handles++, *handle = (uintptr_t)map->memory, CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle) {
    memset(prop, 0, sizeof *prop);
    prop->location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, handle_memory(handle)->device};
    return CUDA_SUCCESS;
}
int cuMemExportToShareableHandle(void *os_handle, CUmemGenericAllocationHandle handle, int type, unsigned long long flags);
int cuMemExportToShareableHandle(void *os_handle, CUmemGenericAllocationHandle handle, int type, unsigned long long flags) {
    int descriptor = memfd_create("double", MFD_CLOEXEC);
    struct shared shared = {handle_memory(handle)->size, handle_memory(handle)->device};
    (void)type, (void)flags;
    if (write(descriptor, &shared, sizeof shared) != sizeof shared) return CUDA_ERROR_INVALID_VALUE;
    return *(int *)os_handle = descriptor, CUDA_SUCCESS;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *os_handle, int type) {
    struct shared shared;
    struct memory *memory = calloc(1, sizeof *memory);
    (void)type;
    if (!memory || pread((int)(intptr_t)os_handle, &shared, sizeof shared, 0) != sizeof shared) return CUDA_ERROR_INVALID_VALUE;
    *memory = (struct memory){.size = shared.size, .device = shared.device, .handles = 1, .borrowed = true};
    return *handle = (uintptr_t)memory, CUDA_SUCCESS;
}
int cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment, CUdeviceptr at, unsigned long long flags);
int cuMemAddressReserve(CUdeviceptr *pointer, size_t size, size_t alignment, CUdeviceptr at, unsigned long long flags) {
    (void)size, (void)alignment, (void)at, (void)flags;
    pthread_mutex_lock(&mutex);
    *pointer = next_address += UINT64_C(1) << 36;
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}
CUresult cuMemMap(CUdeviceptr pointer, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    struct map *map = malloc(sizeof *map);
    (void)flags;
    if (!map || offset + size > handle_memory(handle)->size) return free(map), CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    *map = (struct map){maps, pointer, size, handle_memory(handle)};
    handle_memory(handle)->maps++;
    maps = map;
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr pointer, size_t size) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    for (struct map **at = &maps; *at;) {
        struct map *map = *at;
        if (map->pointer - pointer >= size) {
            at = &map->next;
            continue;
        }
        *at = map->next;
        map->memory->maps--;
        drop_memory(map->memory);
        free(map);
        result = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

/* -- streams and graphs -------------------------------------------------------------------------------------------- */

struct CUgraph_st { uint64_t bytes[CARDS]; };
struct CUgraphExec_st { uint64_t bytes[CARDS]; bool launched; };
struct CUstream_st { CUcontext context; CUgraph capture; };
static uint64_t graph_reserved[CARDS];

int cuStreamCreate(CUstream *stream, unsigned int flags);
int cuStreamCreate(CUstream *stream, unsigned int flags) {
    (void)flags;
    if (!(*stream = calloc(1, sizeof **stream))) return CUDA_ERROR_OUT_OF_MEMORY;
    return (*stream)->context = current(), CUDA_SUCCESS;
}
int cuStreamDestroy_v2(CUstream stream);
int cuStreamDestroy_v2(CUstream stream) { return free(stream), CUDA_SUCCESS; }
static bool real_stream(CUstream stream) { return (uintptr_t)stream > 2; }
CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) { return *context = real_stream(stream) ? stream->context : current(), CUDA_SUCCESS; }
CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext *context) { return cuStreamGetCtx(stream, context); }
CUresult cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **nodes, size_t *count) {
    CUgraph capture = real_stream(stream) ? stream->capture : NULL;
    (void)nodes, (void)count, (void)id;
    *status = capture != NULL;
    if (graph) *graph = capture;
    return CUDA_SUCCESS;
}
CUresult cuStreamGetCaptureInfo_v2_ptsz(CUstream s, int *status, uint64_t *id, CUgraph *g, const CUgraphNode **n, size_t *c) {
    return cuStreamGetCaptureInfo_v2(s, status, id, g, n, c);
}
int cuGraphCreate(CUgraph *graph, unsigned int flags);
int cuGraphCreate(CUgraph *graph, unsigned int flags) { return (void)flags, (*graph = calloc(1, sizeof **graph)) ? CUDA_SUCCESS : 2; }
int cuStreamBeginCapture_v2(CUstream stream, int mode);
int cuStreamBeginCapture_v2(CUstream stream, int mode) { return (void)mode, cuGraphCreate(&stream->capture, 0); }
int cuStreamEndCapture(CUstream stream, CUgraph *graph);
int cuStreamEndCapture(CUstream stream, CUgraph *graph) { return *graph = stream->capture, stream->capture = NULL, CUDA_SUCCESS; }
CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params) {
    (void)after, (void)count;
    graph->bytes[params->poolProps.location.id] += params->bytesize;
    params->dptr = next_address;
    return *node = (CUgraphNode)graph, CUDA_SUCCESS;
}
CUresult cuGraphAddNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUgraphNodeParams *params) {
    return params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? cuGraphAddMemAllocNode(node, graph, after, count, &params->of.alloc) : CUDA_SUCCESS;
}
CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const void *edges, size_t count, CUgraphNodeParams *params) {
    return (void)edges, cuGraphAddNode(node, graph, after, count, params);
}
CUresult cuGraphAddNode_v3(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, const void *edges, size_t count, CUgraphNodeParams *params) {
    return (void)edges, cuGraphAddNode(node, graph, after, count, params);
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    (void)flags;
    if (!(*exec = calloc(1, sizeof **exec))) return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy((*exec)->bytes, graph->bytes, sizeof graph->bytes);
    return CUDA_SUCCESS;
}
CUresult cuGraphInstantiate(CUgraphExec *e, CUgraph g, CUgraphNode *n, char *log, size_t size) { return (void)n, (void)log, (void)size, cuGraphInstantiateWithFlags(e, g, 0); }
CUresult cuGraphInstantiate_v2(CUgraphExec *e, CUgraph g, CUgraphNode *n, char *log, size_t size) { return (void)n, (void)log, (void)size, cuGraphInstantiateWithFlags(e, g, 1); }
CUresult cuGraphInstantiateWithParams(CUgraphExec *e, CUgraph g, void *params) { return (void)params, cuGraphInstantiateWithFlags(e, g, 2); }
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *e, CUgraph g, void *params) { return (void)params, cuGraphInstantiateWithFlags(e, g, 3); }
int cuGraphLaunch(CUgraphExec exec, CUstream stream);
int cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    (void)stream;
    pthread_mutex_lock(&mutex);
    for (int card = 0; card < CARDS && !exec->launched; card++)
        if (exec->bytes[card]) graph_reserved[card] += exec->bytes[card], book(card, (int64_t)exec->bytes[card]);
    exec->launched = true;
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec exec) { return free(exec), CUDA_SUCCESS; }
CUresult cuGraphDestroy(CUgraph graph) { return free(graph), CUDA_SUCCESS; }
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value) { return (void)attribute, *(uint64_t *)value = graph_reserved[device], CUDA_SUCCESS; }
CUresult cuDeviceGraphMemTrim(CUdevice device) {
    pthread_mutex_lock(&mutex);
    if (graph_reserved[device]) book(device, -(int64_t)graph_reserved[device]);
    graph_reserved[device] = 0;
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}

/* -- pools --------------------------------------------------------------------------------------------------------- */

static struct pool *pool_of(CUmemoryPool handle) { return (struct pool *)handle; }
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) { return *pool = (CUmemoryPool)&pools[device], CUDA_SUCCESS; }
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) { return cuDeviceGetMemPool(pool, device); }
CUresult cuMemPoolCreate(CUmemoryPool *handle, const CUmemPoolProps *props) {
    for (int i = CARDS; i < POOLS; i++) {
        if (pools[i].used) continue;
        pools[i] = (struct pool){.used = true, .device = props->location.id};
        return *handle = (CUmemoryPool)&pools[i], CUDA_SUCCESS;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemPoolDestroy(CUmemoryPool handle) {
    pthread_mutex_lock(&mutex);
    pool_of(handle)->threshold = 0;
    settle(pool_of(handle));
    pool_of(handle)->used = pool_of(handle)->live != 0;
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
    pthread_mutex_lock(&mutex);
    *(uint64_t *)value = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? pool_of(pool)->reserved : pool_of(pool)->live;
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}
int cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value);
int cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
    if (attribute == 4) pool_of(pool)->threshold = *(uint64_t *)value;
    return CUDA_SUCCESS;
}
CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
    struct pool *pool = pool_of(handle);
    pthread_mutex_lock(&mutex);
    uint64_t threshold = pool->threshold;
    pool->threshold = keep;
    settle(pool);
    pool->threshold = threshold;
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t size, CUmemoryPool handle, CUstream stream) {
    struct pool *pool = pool_of(handle);
    if (real_stream(stream) && stream->capture) return stream->capture->bytes[pool->device] += size, *pointer = next_address, CUDA_SUCCESS;
    pthread_mutex_lock(&mutex);
    CUresult result = put(pointer, size, pool->device, pool, false);
    pool->live += size;
    uint64_t needs = (pool->live + chunk - 1) / chunk * chunk;
    if (needs > pool->reserved) book(pool->device, (int64_t)(needs - pool->reserved)), pool->reserved = needs;
    pthread_mutex_unlock(&mutex);
    return result;
}
CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t size, CUstream stream) {
    CUcontext context = real_stream(stream) ? stream->context : current();
    return context ? cuMemAllocFromPoolAsync(pointer, size, (CUmemoryPool)&pools[context->device], stream) : INVALID_CONTEXT;
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t size, CUstream stream) { return cuMemAllocAsync(pointer, size, stream); }
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *p, size_t size, CUmemoryPool pool, CUstream s) { return cuMemAllocFromPoolAsync(p, size, pool, s); }
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
    (void)stream;
    pthread_mutex_lock(&mutex);
    CUresult result = drop(pointer, NULL);
    pthread_mutex_unlock(&mutex);
    return result;
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr pointer, CUstream stream) { return cuMemFreeAsync(pointer, stream); }
CUresult cuCtxSynchronize(void) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < POOLS; i++)
        if (pools[i].used) settle(&pools[i]);
    pthread_mutex_unlock(&mutex);
    return CUDA_SUCCESS;
}
CUresult cuCtxSynchronize_v2(CUcontext context) { return (void)context, cuCtxSynchronize(); }
CUresult cuStreamSynchronize(CUstream stream) { return (void)stream, cuCtxSynchronize(); }
CUresult cuStreamSynchronize_ptsz(CUstream stream) { return (void)stream, cuCtxSynchronize(); }
CUresult cuEventSynchronize(CUevent event) { return (void)event, cuCtxSynchronize(); }

/* -- arrays -------------------------------------------------------------------------------------------------------- */

static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels) { /* one byte an element */
    uint64_t sum = 0, w = d->Width, h = d->Height ? d->Height : 1, z = d->Depth ? d->Depth : 1;
    for (unsigned int i = 0; i < levels; i++) sum += w * h * z * d->NumChannels, w = w > 1 ? w / 2 : 1, h = h > 1 ? h / 2 : 1, z = z > 1 ? z / 2 : 1;
    return (sum + array_align - 1) / array_align * array_align;
}
CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *d) {
    uint64_t key;
    CUresult result = allocate(&key, array_bytes(d, 1));
    return *array = (CUarray)(uintptr_t)key, result;
}
CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *d) {
    CUDA_ARRAY3D_DESCRIPTOR full = {.Width = d->Width, .Height = d->Height, .NumChannels = d->NumChannels};
    return cuArray3DCreate_v2(array, &full);
}
CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int levels) {
    uint64_t key;
    CUresult result = allocate(&key, array_bytes(d, levels));
    return *array = (CUmipmappedArray)(uintptr_t)key, result;
}
CUresult cuArrayCreate(CUarray *array, const void *d) { return (void)d, *array = NULL, CUDA_SUCCESS; }
CUresult cuArray3DCreate(CUarray *array, const void *d) { return (void)d, *array = NULL, CUDA_SUCCESS; }
CUresult cuArrayDestroy(CUarray array) { return release((uintptr_t)array); }
CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) { return release((uintptr_t)array); }
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs, CUarray array, CUdevice device) {
    CUdeviceptr base;
    return (void)device, cuMemGetAddressRange_v2(&base, &needs->size, (uintptr_t)array);
}
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *needs, CUmipmappedArray array, CUdevice device) {
    return cuArrayGetMemoryRequirements(needs, (CUarray)array, device);
}

/* -- work and lookups ---------------------------------------------------------------------------------------------- */

int cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned shared, CUstream s, void **p, void **x);
int cuLaunchKernel(void *f, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned g, unsigned shared, CUstream s, void **p, void **x) {
    (void)s, (void)p, (void)x; /* all eleven arguments must arrive: the sum tells */
    return f ? (int)(a + b + c + d + e + g + shared) : CUDA_SUCCESS;
}
int cuTexRefSetMipmapLevelBias(void *reference, float bias);
int cuTexRefSetMipmapLevelBias(void *reference, float bias) { return (void)reference, (int)(bias * 100); }

static const struct { const char *family, *name; int since, per_thread; } versions[] = {
#define HOOK(name, family, since, thread) {family, #name, since, thread},
#define ALIAS(name, family, since, thread) HOOK(name, family, since, thread)
#define USE(name)
#include "../src/hooks.h"
};

static void *look_up(const char *symbol, int version, bool per_thread) {
    const char *best = NULL;
    char versioned[128];
    Dl_info info;
    int since = -1;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        if (strcmp(versions[i].family, symbol) != 0 || versions[i].since > version) continue;
        if (versions[i].per_thread && !per_thread) continue;
        if (versions[i].since * 2 + versions[i].per_thread > since) since = versions[i].since * 2 + versions[i].per_thread, best = versions[i].name;
    }
    static void *self;
    if (!self && (!dladdr((const void *)versions, &info) || !(self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD)))) return NULL;
    if (best) return dlsym(self, best);
    snprintf(versioned, sizeof versioned, "%s_v2", symbol);
    void *found = dlsym(self, versioned);
    return found ? found : dlsym(self, symbol);
}
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    *function = look_up(symbol, version, flags & 2);
    if (status) *status = *function ? 0 : 1;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    return cuGetProcAddress_v2(symbol, function, version, flags & 1 ? flags : flags | 2, status);
}
CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(symbol, function, version, flags, NULL);
}
