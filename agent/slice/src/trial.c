/* trial GPU-UUID BYTES: what a program sees of its first card, as one JSON object, and whether it gets half of BYTES and then a
 * MiB more than the other half. It knows nothing of slices: the node's probe runs it with the shims and without, and
 * compares. Says "ready" when its context stands, and goes on when its input ends, so that its use can be looked at. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver.h"

typedef struct { unsigned long long total, free, used; } nvmlMemory_t;

static void *library;

static void take(const char *name, void *function) {
    void *found = dlsym(library, name);
    if (!found) fprintf(stderr, "the library has no %s\n", name), exit(1);
    memcpy(function, &found, sizeof found);
}

static void load(const char *name) {
    if (!(library = dlopen(name, RTLD_NOW | RTLD_LOCAL))) fprintf(stderr, "%s\n", dlerror()), exit(1);
}

static void need(const char *what, int result) {
    if (result) fprintf(stderr, "%s answers %d\n", what, result), exit(1);
}

static void look_at_cuda(size_t bytes) {
    CUresult (*init)(unsigned int), (*device)(CUdevice *, int), (*retain)(CUcontext *, CUdevice), (*current)(CUcontext);
    CUresult (*total_of)(size_t *, CUdevice), (*info)(size_t *, size_t *), (*alloc)(CUdeviceptr *, size_t), (*release)(CUdevice);
    CUdevice card;
    CUcontext context;
    CUdeviceptr half, more;
    size_t total, free_now, all;
    load("libcuda.so.1");
    take("cuInit", &init), take("cuDeviceGet", &device), take("cuDevicePrimaryCtxRetain", &retain);
    take("cuCtxSetCurrent", &current), take("cuDeviceTotalMem_v2", &total_of), take("cuMemGetInfo_v2", &info);
    take("cuMemAlloc_v2", &alloc), take("cuDevicePrimaryCtxRelease_v2", &release);
    need("cuInit", init(0)), need("cuDeviceGet", device(&card, 0)), need("the context", retain(&context, card));
    need("cuCtxSetCurrent", current(context)), need("cuDeviceTotalMem", total_of(&total, card));
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {}
    need("cuMemGetInfo", info(&free_now, &all));
    int first = alloc(&half, bytes / 2), second = alloc(&more, bytes / 2 + (1 << 20));
    printf("{\"device_bytes\": %zu, \"total_bytes\": %zu, \"free_bytes\": %zu, \"half\": %d, \"more\": %d, ", total, all,
           free_now, first, second);
    release(card);
}

static void look_at_nvml(const char *uuid) {
    int (*init)(void), (*by_uuid)(const char *, void **), (*info)(void *, nvmlMemory_t *), (*shutdown)(void);
    void *card;
    nvmlMemory_t memory;
    load("libnvidia-ml.so.1");
    take("nvmlInit_v2", &init), take("nvmlDeviceGetHandleByUUID", &by_uuid), take("nvmlDeviceGetMemoryInfo", &info);
    take("nvmlShutdown", &shutdown);
    need("nvmlInit", init()), need("the card in NVML", by_uuid(uuid, &card)), need("NVML's memory", info(card, &memory));
    printf("\"nvml_bytes\": %llu}\n", memory.total);
    shutdown();
}

int main(int count, char **words) {
    if (count != 3) return fputs("usage: trial GPU-UUID BYTES\n", stderr), 2;
    look_at_cuda((size_t)strtoull(words[2], NULL, 10));
    look_at_nvml(words[1]);
    return fflush(stdout) == 0 ? 0 : 1;
}
