/* The private tables that a runtime up to 11.1 asks the driver for, as far as allocating goes: storage per context, the
 * primary context, and the tools' hooks, which stay empty. Newer runtimes also verify the driver by a table of their own;
 * that check is not forged, so they do not run on the double. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../src/driver.h"

typedef void (*entry)(void);
int cuGetExportTable(const void **table, const CUuuid *id);

static struct value { struct value *next; CUcontext context; void *key, *value; } *values;

static CUcontext or_current(CUcontext context) {
    if (!context) cuCtxGetCurrent(&context);
    return context;
}
static CUresult put_value(CUcontext context, void *key, void *value, void *end) {
    struct value *fresh = malloc(sizeof *fresh);
    (void)end;
    if (!fresh) return CUDA_ERROR_OUT_OF_MEMORY;
    *fresh = (struct value){values, or_current(context), key, value};
    values = fresh;
    return CUDA_SUCCESS;
}
static CUresult remove_value(CUcontext context, void *key) {
    (void)context, (void)key;
    return CUDA_SUCCESS;
}
static CUresult get_value(void **value, CUcontext context, void *key) {
    context = or_current(context);
    for (struct value *one = values; one; one = one->next)
        if (one->context == context && one->key == key) return *value = one->value, CUDA_SUCCESS;
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult primary(CUcontext *context, CUdevice device) { return cuDevicePrimaryCtxRetain(context, device); }
static CUresult nothing(void) { return CUDA_SUCCESS; }
static void no_hooks(void **hooks, size_t *size) {
    static void *room[1024];
    *hooks = room, *size = 1024;
}

int cuGetExportTable(const void **table, const CUuuid *id) {
    static entry storage[4], interface[16], tools[8], thread[8];
    static const struct { unsigned char id[4]; const entry *table; } known[] = {
        {{0xc6, 0x93, 0x33, 0x6e}, storage}, {{0x6b, 0xd5, 0xfb, 0x6c}, interface}, {{0xa0, 0x94, 0x79, 0x8c}, tools},
        {{0x42, 0xd8, 0x5a, 0x81}, thread}};
    uintptr_t size = sizeof interface;
    storage[0] = (entry)put_value, storage[1] = (entry)remove_value, storage[2] = (entry)get_value;
    for (int i = 1; i < 16; i++) interface[i] = (entry)nothing;
    interface[2] = (entry)primary;
    memcpy(&interface[0], &size, sizeof size);
    size = 7 * sizeof(entry);
    memcpy(&tools[0], &size, sizeof size);
    memcpy(&thread[0], &size, sizeof size);
    for (int i = 1; i < 7; i++) thread[i] = (entry)nothing;
    tools[2] = tools[6] = (entry)no_hooks;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (memcmp(id->bytes, known[i].id, 4) == 0) return *table = known[i].table, CUDA_SUCCESS;
    return CUDA_ERROR_NOT_FOUND;
}
