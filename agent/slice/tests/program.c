/* The programs that the tests run: program WHAT [numbers]. Linked with -lcuda (LINKED) or on its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../src/driver.h"
#include "cases.h"

static void *library;

/* -- the routes ---------------------------------------------------------------------------------------------------- */

static void *by_dlsym(const char *name) { return dlsym(library, name); }

static const struct { const char *name, *family; int since, per_thread; } families[] = {
#define HOOK(name, family, since, thread) {#name, family, since, thread},
#define ALIAS(name, family, since, thread)
#define USE(name)
#include "../src/hooks.h"
#undef HOOK
#undef USE
};

static void *by_proc_address(const char *name) { /* as the runtimes do: family, version, kind of stream */
    int (*get)(const char *, void **, int, uint64_t, int *);
    void *found = dlsym(library, "cuGetProcAddress_v2");
    memcpy(&get, &found, sizeof get);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].name, name) == 0)
            return get(families[i].family, &found, families[i].since, families[i].per_thread ? 2 : 1, NULL) ? NULL : found;
    return get(name, &found, 13040, 0, NULL) ? dlsym(library, name) : found;
}

#ifdef LINKED
int cuCtxSetCurrent(CUcontext context);
static void *by_link(const char *name) { /* addresses that the linker put in */
    static const struct { const char *name; void (*function)(void); } linked[] = {
#define HOOK(name, family, since, thread) {#name, (void (*)(void))name},
#define USE(name) {#name, (void (*)(void))name},
#include "../src/hooks.h"
        {"cuCtxSetCurrent", (void (*)(void))cuCtxSetCurrent},
    };
    void *found = NULL;
    for (size_t i = 0; i < sizeof linked / sizeof *linked; i++)
        if (strcmp(linked[i].name, name) == 0) return memcpy(&found, &linked[i].function, sizeof found), found;
    return dlsym(RTLD_DEFAULT, name);
}
#endif

static void *driver(const char *name) {
    void *found = dlsym(library, name);
    if (!found) fprintf(stderr, "no %s\n", name), exit(9);
    return found;
}
static CUresult (*mem_alloc)(CUdeviceptr *, size_t), (*mem_free)(CUdeviceptr), (*mem_info)(size_t *, size_t *);

static int start(void) { /* the result of cuInit, or of what follows */
    CUresult (*init)(unsigned int), (*retain)(CUcontext *, CUdevice);
    int (*set)(CUcontext);
    CUcontext context;
    void *found;
#define GET(variable, name) found = driver(name), memcpy(&variable, &found, sizeof found)
    GET(init, "cuInit");
    GET(retain, "cuDevicePrimaryCtxRetain");
    GET(set, "cuCtxSetCurrent");
    GET(mem_alloc, "cuMemAlloc_v2");
    GET(mem_free, "cuMemFree_v2");
    GET(mem_info, "cuMemGetInfo_v2");
    CUresult result = init(0);
    if (result == CUDA_SUCCESS) result = retain(&context, 0);
    return result ? result : set(context);
}

/* -- what they do -------------------------------------------------------------------------------------------------- */

static unsigned int random_state;
static unsigned int random_number(void) { return random_state = random_state * 1664525u + 1013904223u, random_state >> 8; }

static int churn(uint64_t most, int rounds) { /* allocate and free at random; 0: for ever */
    CUdeviceptr held[16];
    int count = 0;
    for (int i = 0; rounds == 0 || i < rounds; i++) {
        if (count < 16 && random_number() % 3) {
            CUresult result = mem_alloc(&held[count], 1 + random_number() % most);
            if (result == CUDA_SUCCESS) count++;
            else if (result != CUDA_ERROR_OUT_OF_MEMORY) return 1;
        } else if (count) {
            if (mem_free(held[--count]) != CUDA_SUCCESS) return 2;
        }
    }
    while (count) if (mem_free(held[--count]) != CUDA_SUCCESS) return 3;
    return 0;
}

static void *one_thread(void *most) {
    CUresult (*retain)(CUcontext *, CUdevice), (*alloc_async)(CUdeviceptr *, size_t, CUstream);
    int (*set)(CUcontext);
    CUcontext context;
    void *found;
    GET(retain, "cuDevicePrimaryCtxRetain");
    GET(set, "cuCtxSetCurrent");
    GET(alloc_async, "cuMemAllocAsync");
    retain(&context, 0);
    set(context);
    intptr_t failed = 0;
    CUdeviceptr held[16];
    unsigned int state = (unsigned int)(uintptr_t)&held, count = 0;
    for (int i = 0; i < 20000 && !failed; i++) {
        state = state * 1664525u + 1013904223u;
        if (count < 16 && (state >> 8) % 2) {
            size_t size = 1 + (state >> 10) % *(uint64_t *)most;
            if ((state & 64 ? mem_alloc(&held[count], size) : alloc_async(&held[count], size, NULL)) == CUDA_SUCCESS) count++;
        } else if (count && mem_free(held[--count]) != CUDA_SUCCESS) failed = 1;
    }
    while (count) failed |= mem_free(held[--count]);
    return (void *)failed;
}

static int threads(uint64_t most) { /* addresses are reused across threads; in the end nothing is charged */
    pthread_t thread[8];
    void *failed;
    int sum = 0;
    for (int i = 0; i < 8; i++) pthread_create(&thread[i], NULL, one_thread, &most);
    for (int i = 0; i < 8; i++) pthread_join(thread[i], &failed), sum |= failed != NULL;
    return sum;
}

static void told(void) {
    size_t free_bytes = 0, total = 0;
    CUresult result = mem_info(&free_bytes, &total);
    printf("%d %zu %zu\n", result, free_bytes, total);
    fflush(stdout);
}

/* A child must neither be charged for its parent's memory nor keep a dead parent alive. */
static int forks(uint64_t bytes, char **words) {
    CUdeviceptr pointer;
    if (mem_alloc(&pointer, bytes)) return 1;
    pid_t child = fork();
    if (child == 0) { /* frees what it does not own: refused or not, the parent's account stays as it is */
        told();
        if (mem_alloc(&pointer, bytes) != CUDA_SUCCESS) _exit(2);
        told();
        execv(words[0], (char *[]){words[0], "tell", NULL});
        _exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    told();
    return status;
}

static int orphan(uint64_t bytes) { /* the parent dies, its forked child lives on and does nothing */
    CUdeviceptr pointer;
    if (mem_alloc(&pointer, bytes)) return 1;
    pid_t child = fork();
    if (child == 0) {
        close(1);
        sleep(600);
        _exit(0);
    }
    printf("%d\n", (int)child);
    fflush(stdout);
    kill(getpid(), SIGKILL);
    return 9;
}

static int hold(uint64_t bytes) { /* until somebody ends it */
    CUdeviceptr pointer;
    printf("%d\n", mem_alloc(&pointer, bytes));
    fflush(stdout);
    for (char byte; read(0, &byte, 1) > 0;) told();
    return 0;
}

static int measure(uint64_t rounds) {
    struct timespec begin, end;
    CUdeviceptr pointer;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t i = 0; i < rounds; i++) if (mem_alloc(&pointer, 4096) || mem_free(pointer)) return 1;
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%.1f\n", ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / (double)rounds);
    return 0;
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    uint64_t number = count > 2 ? strtoull(words[2], NULL, 10) : 0;
    const char *path = getenv("PROGRAM_LIBRARY") ? getenv("PROGRAM_LIBRARY") : "libcuda.so.1";
    if (strcmp(what, "emptied") == 0) clearenv(); /* before the driver is loaded */
    if (!(library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) return fprintf(stderr, "%s\n", dlerror()), 8;
#ifdef LINKED
    if (strcmp(what, "cases-link") == 0) return run_cases(by_link, number);
#endif
    if (strcmp(what, "cases-dlsym") == 0) return run_cases(by_dlsym, number);
    if (strcmp(what, "cases-proc") == 0) return run_cases(by_proc_address, number);
    CUresult result = start();
    if (strcmp(what, "start") == 0 || result) return printf("%d\n", result), 0;
    random_state = (unsigned int)getpid() * 2654435761u;
    if (strcmp(what, "closed") == 0) { /* as daemons do; then the descriptors are handed out anew */
        for (int i = 3; i < 1024; i++) close(i);
        for (int i = 0; i < 32; i++) if (dup(0) < 0) return 7;
        what = "hold";
    }
    if (strcmp(what, "churn") == 0) return churn(number, count > 3 ? atoi(words[3]) : 0);
    if (strcmp(what, "threads") == 0) return threads(number) ? 1 : (told(), 0);
    if (strcmp(what, "tell") == 0 || strcmp(what, "emptied") == 0) return told(), 0;
    if (strcmp(what, "fork") == 0) return forks(number, words);
    if (strcmp(what, "orphan") == 0) return orphan(number);
    if (strcmp(what, "hold") == 0) return hold(number);
    if (strcmp(what, "measure") == 0) return measure(number);
    return 2;
}
