/* The NVML shim: memory and processes as far as the slice goes; everything else falls through to the real library. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "account.h"
#include "format.h"
#include "real.h"

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef int nvmlReturn_t;
enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NO_PERMISSION = 4,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_NOT_READY = 27
};
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned int pid; unsigned long long used; } nvmlProcessInfo_v1_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } nvmlProcessInfo_v2_t;
typedef struct {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
    unsigned long long protected_memory;
} nvmlProcessDetail_v1_t;
typedef struct { unsigned int version, mode, count; nvmlProcessDetail_v1_t *processes; } nvmlProcessDetailList_t;
enum { MODE_COMPUTE = 0, NONE = -1 };

#define REAL(name, type) ((type)real_symbol(name))
#define EXPORT __attribute__((visibility("default")))
#define EXPORTED(declaration) EXPORT declaration; declaration

/* -- which card ---------------------------------------------------------------------------------------------------- */

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

static int parse_uuid(const char *text, uint8_t uuid[16]) { /* "GPU-" and 32 hexadecimal digits, dashes anywhere */
    int digits = 0;
    if (strncmp(text, "GPU-", 4) != 0) return 0;
    for (text += 4; *text && digits < 32; text++) {
        if (*text == '-') continue;
        int value = digit(*text);
        if (value < 0) return 0;
        uuid[digits / 2] = (uint8_t)(digits % 2 ? uuid[digits / 2] << 4 | value : value);
        digits++;
    }
    return digits == 32 && *text == 0;
}

static nvmlReturn_t card_of(nvmlDevice_t device, int *card) {
    char text[96] = "";
    uint8_t uuid[16];
    nvmlReturn_t (*get)(nvmlDevice_t, char *, unsigned int) = REAL("nvmlDeviceGetUUID", nvmlReturn_t (*)(nvmlDevice_t, char *, unsigned int));
    if (!slice_open()) return NVML_ERROR_NOT_READY;
    if (!get) return NVML_ERROR_FUNCTION_NOT_FOUND;
    nvmlReturn_t result = get(device, text, sizeof text);
    if (result != NVML_SUCCESS) return result;
    *card = parse_uuid(text, uuid) ? slice_card_of(uuid) : NONE;
    return *card == NONE ? NVML_ERROR_NO_PERMISSION : NVML_SUCCESS; /* another task's card is none of this one's business */
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

static void limit_memory(int card, unsigned long long *total, unsigned long long *free_bytes, unsigned long long *used) {
    uint64_t limit = slice_limit(card);
    if (*total > limit) *total = limit;
    *used = slice_used(card);
    if (*used > *total) *used = *total;
    if (*free_bytes > *total - *used) *free_bytes = *total - *used;
}

EXPORTED(nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)) {
    int card;
    nvmlReturn_t (*get)(nvmlDevice_t, nvmlMemory_t *) = REAL("nvmlDeviceGetMemoryInfo", nvmlReturn_t (*)(nvmlDevice_t, nvmlMemory_t *));
    nvmlReturn_t result = card_of(device, &card);
    if (result != NVML_SUCCESS) return result;
    result = get ? get(device, memory) : NVML_ERROR_FUNCTION_NOT_FOUND;
    if (result == NVML_SUCCESS) limit_memory(card, &memory->total, &memory->free, &memory->used);
    return result;
}

EXPORTED(nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)) {
    int card;
    nvmlReturn_t (*get)(nvmlDevice_t, nvmlMemory_v2_t *) = REAL("nvmlDeviceGetMemoryInfo_v2", nvmlReturn_t (*)(nvmlDevice_t, nvmlMemory_v2_t *));
    nvmlReturn_t result = card_of(device, &card);
    if (result != NVML_SUCCESS) return result;
    result = get ? get(device, memory) : NVML_ERROR_FUNCTION_NOT_FOUND;
    if (result != NVML_SUCCESS) return result;
    memory->reserved = 0; /* the driver's own share is not part of any slice */
    limit_memory(card, &memory->total, &memory->free, &memory->used);
    return NVML_SUCCESS;
}

/* -- processes: those of the slice, with what the slice's account says they use ------------------------------------- */

enum { MOST_ROWS = SLICE_SLOTS };

static unsigned int rows_on(int card, struct slice_row *rows) {
    int count = slice_rows(rows, MOST_ROWS), kept = 0;
    for (int i = 0; i < count && i < MOST_ROWS; i++)
        if (rows[i].pid && (rows[i].used[card] || rows[i].cards >> card & 1)) rows[kept++] = rows[i];
    return (unsigned int)kept;
}

typedef void fill(void *entries, unsigned int at, const struct slice_row *row, int card);

static void fill_v1(void *entries, unsigned int at, const struct slice_row *row, int card) {
    ((nvmlProcessInfo_v1_t *)entries)[at] = (nvmlProcessInfo_v1_t){.pid = row->pid, .used = row->used[card]};
}

static void fill_v2(void *entries, unsigned int at, const struct slice_row *row, int card) {
    ((nvmlProcessInfo_v2_t *)entries)[at] = (nvmlProcessInfo_v2_t){
        .pid = row->pid, .used = row->used[card], .gpu_instance = 0xffffffffu, .compute_instance = 0xffffffffu};
}

static void fill_detail(void *entries, unsigned int at, const struct slice_row *row, int card) {
    ((nvmlProcessDetail_v1_t *)entries)[at] = (nvmlProcessDetail_v1_t){
        .pid = row->pid, .used = row->used[card], .gpu_instance = 0xffffffffu, .compute_instance = 0xffffffffu};
}

static nvmlReturn_t list_processes(nvmlDevice_t device, unsigned int *count, void *entries, fill *fill_one) {
    int card;
    if (!count) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = card_of(device, &card);
    if (result != NVML_SUCCESS) return result;
    struct slice_row *rows = calloc(MOST_ROWS, sizeof *rows);
    if (!rows) return NVML_ERROR_MEMORY;
    unsigned int room = *count;
    *count = rows_on(card, rows);
    if (*count > room || (*count && !entries)) result = NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; result == NVML_SUCCESS && i < *count; i++) fill_one(entries, i, &rows[i], card);
    free(rows);
    return result;
}

static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned int *count) {
    int card;
    if (!count) return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = card_of(device, &card);
    if (result == NVML_SUCCESS) *count = 0;
    return result;
}

#define PROCESSES(name, body) EXPORTED(nvmlReturn_t name(nvmlDevice_t device, unsigned int *count, void *entries)) { (void)entries; return body; }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, list_processes(device, count, entries, fill_v1))
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, list_processes(device, count, entries, fill_v2))
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, list_processes(device, count, entries, fill_v2))
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, no_processes(device, count))
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, no_processes(device, count))
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, no_processes(device, count))
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, no_processes(device, count))
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, no_processes(device, count))
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, no_processes(device, count))

EXPORTED(nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *list)) {
    if (!list) return NVML_ERROR_INVALID_ARGUMENT;
    if (list->mode != MODE_COMPUTE) return no_processes(device, &list->count);
    return list_processes(device, &list->count, list->processes, fill_detail);
}

/* Samples and accounting name processes of other tasks as well: the documented answer for "nothing to tell". */
EXPORTED(nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, void *samples, unsigned int *count, unsigned long long since)) {
    (void)samples, (void)since;
    nvmlReturn_t result = no_processes(device, count);
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_FOUND : result;
}

EXPORTED(nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, void *info)) {
    int card;
    (void)info;
    nvmlReturn_t result = card_of(device, &card);
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_FOUND : result;
}

EXPORTED(nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids)) {
    (void)pids;
    return no_processes(device, count);
}
