/* cuGetProcAddress: the driver answers; where its answer is a hooked function, ours is given instead. */
#include <string.h>

#include "account.h"
#include "core.h"

static const struct hook {
    const char *family;
    any_function ours;
    enum real_name real;
    int since, per_thread;
} hooks[] = {
#define HOOK(name, family, since, thread) {family, (any_function)name, REAL_##name, since, thread},
#define ALIAS(name, family, since, thread) HOOK(name, family, since, thread)
#define USE(name)
#include "hooks.h"
#undef HOOK
#undef ALIAS
#undef USE
};
enum { HOOKS = sizeof hooks / sizeof *hooks };

static bool same_family(const char *symbol, const char *family) { /* cuMemAlloc, but also cuMemAlloc_v2, ..._ptsz */
    size_t length = strlen(family);
    return strncmp(symbol, family, length) == 0 &&
           (symbol[length] == 0 || strncmp(symbol + length, "_v", 2) == 0 || strcmp(symbol + length, "_ptsz") == 0);
}

static const struct hook *by_address(any_function found, const char *symbol) {
    for (const struct hook *hook = hooks; hook < hooks + HOOKS; hook++)
        if (same_family(symbol, hook->family) && real_has(hook->real) && real_function(hook->real) == found) return hook;
    return NULL;
}

/* A driver whose answer is not what dlsym gives for any name of the family: choose as it does, by version and stream. */
static const struct hook *by_version(const char *symbol, int version, bool per_thread) {
    const struct hook *best = NULL;
    for (const struct hook *hook = hooks; hook < hooks + HOOKS; hook++) {
        if (!same_family(symbol, hook->family) || hook->since > version || (hook->per_thread && !per_thread)) continue;
        if (!best || hook->since > best->since || (hook->since == best->since && hook->per_thread > best->per_thread)) best = hook;
    }
    return best;
}

static void substitute(const char *symbol, void **function, int version, bool per_thread) {
    any_function found;
    if (!symbol || !function || !*function) return;
    memcpy(&found, function, sizeof found);
    const struct hook *hook = by_address(found, symbol);
    if (!hook && (hook = by_version(symbol, version, per_thread))) real_set(hook->real, found);
    if (hook) memcpy(function, &hook->ours, sizeof *function);
}

CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags) {
    CUresult result = REAL(cuGetProcAddress)(symbol, function, version, flags);
    if (result == CUDA_SUCCESS) substitute(symbol, function, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    return result;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    CUresult result = REAL(cuGetProcAddress_v2)(symbol, function, version, flags, status);
    if (result == CUDA_SUCCESS) substitute(symbol, function, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    return result;
}

CUresult cuGetProcAddress_v2_ptsz(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    CUresult result = REAL(cuGetProcAddress_v2_ptsz)(symbol, function, version, flags, status);
    if (result == CUDA_SUCCESS) substitute(symbol, function, version, !(flags & 1));
    return result;
}
