/* How a pool that grows in large steps is charged; the steps are the double's DOUBLE_POOL_CHUNK. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "../src/driver.h"

static void *library;
static void (*named(const char *name))(void) {
    void *found = dlsym(library, name);
    void (*function)(void);
    memcpy(&function, &found, sizeof function);
    return function;
}
#define CALL(name) ((__typeof__(&name))named(#name))
int cuCtxSetCurrent(CUcontext context);

static void tell(const char *what, CUresult result) {
    size_t free_bytes = 0, total = 0;
    CALL(cuMemGetInfo_v2)(&free_bytes, &total);
    printf("%s: %d, free %zu\n", what, result, free_bytes);
}

int main(void) {
    CUcontext context;
    CUdeviceptr one, all, more;
    CUmemoryPool pool;
    size_t free_bytes, total;
    if (!(library = dlopen("libcuda.so.1", RTLD_NOW))) return 1;
    CALL(cuInit)(0);
    CALL(cuDevicePrimaryCtxRetain)(&context, 0);
    CALL(cuCtxSetCurrent)(context);
    CALL(cuMemGetInfo_v2)(&free_bytes, &total);
    tell("one byte", CALL(cuMemAllocAsync)(&one, 1, NULL));
    tell("freed, not waited for", CALL(cuMemFreeAsync)(one, NULL));
    tell("all of it, by trimming first", CALL(cuMemAlloc_v2)(&all, total));
    tell("one byte more", CALL(cuMemAllocAsync)(&more, 1, NULL));
    CALL(cuMemFree_v2)(all);
    CALL(cuMemAlloc_v2)(&all, total - (16 << 20));
    tell("a pool that would grow too far", CALL(cuMemAllocAsync)(&more, 1, NULL));
    CALL(cuMemFree_v2)(all);
    CALL(cuDeviceGetMemPool)(&pool, 0);
    CALL(cuMemAllocAsync)(&one, 1, NULL);
    CALL(cuMemFreeAsync)(one, NULL);
    tell("waited", CALL(cuStreamSynchronize)(NULL));
    return 0;
}
