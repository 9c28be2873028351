/* A double of NVML: three cards that sell 32,510 MiB, and a stranger's process on each. */
#include <stdio.h>
#include <string.h>

typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } process_v2;
typedef struct { unsigned int pid; unsigned long long used; } process_v1;
typedef struct { char legacy[16]; unsigned int domain, bus, device, id_pci, id_subsystem; char id[32]; } pci_v3;
#define TOTAL (32510ull << 20)
static int cards[3] = {1, 2, 3};

#define DOUBLE(declaration) declaration; declaration
DOUBLE(int nvmlInitWithFlags(unsigned int flags)) { return (int)flags; }
DOUBLE(int nvmlInit_v2(void)) { return 0; }
DOUBLE(int nvmlShutdown(void)) { return 0; }
DOUBLE(int nvmlDeviceGetCount_v2(unsigned int *count)) { return *count = 3, 0; }
DOUBLE(int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)) { return index < 3 ? *device = &cards[index], 0 : 2; }
DOUBLE(int nvmlDeviceGetUUID(void *device, char *text, unsigned int length)) {
    snprintf(text, length, "GPU-00000000-0000-0000-0000-%012x", *(int *)device);
    return 0;
}
DOUBLE(int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)) {
    char text[48];
    for (int i = 0; i < 3; i++) {
        nvmlDeviceGetUUID(&cards[i], text, sizeof text);
        if (strcmp(text, uuid) == 0) return *device = &cards[i], 0;
    }
    return 6;
}
DOUBLE(int nvmlSystemGetDriverVersion(char *text, unsigned int length)) { return snprintf(text, length, "580.95.05"), 0; }
DOUBLE(int nvmlDeviceGetIndex(void *device, unsigned int *index)) { return *index = (unsigned int)*(int *)device - 1, 0; }
DOUBLE(int nvmlDeviceGetPciInfo_v3(void *device, pci_v3 *pci)) {
    *pci = (pci_v3){.bus = (unsigned int)*(int *)device};
    snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", pci->bus);
    return 0;
}
DOUBLE(int nvmlDeviceGetName(void *device, char *text, unsigned int length)) { return snprintf(text, length, "Doubled V100 %d", *(int *)device), 0; }
DOUBLE(int nvmlDeviceGetMemoryInfo(void *device, memory_v1 *memory)) {
    (void)device;
    *memory = (memory_v1){TOTAL, TOTAL - (9ull << 30), 9ull << 30};
    return 0;
}
DOUBLE(int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *memory)) {
    (void)device;
    *memory = (memory_v2){memory->version, TOTAL + (258ull << 20), 258ull << 20, TOTAL - (9ull << 30), 9ull << 30};
    return 0;
}
static int stranger_v1(unsigned int *count, process_v1 *rows) { return rows && *count ? rows[0] = (process_v1){4242, 9ull << 30}, *count = 1, 0 : (*count = 1, 7); }
static int stranger_v2(unsigned int *count, process_v2 *rows) { return rows && *count ? rows[0] = (process_v2){4242, 9ull << 30, 0, 0}, *count = 1, 0 : (*count = 1, 7); }
#define PROCESSES(name, version) DOUBLE(int name(void *device, unsigned int *count, void *rows)) { return (void)device, stranger_##version(count, rows); }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, v1)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, v2)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, v2)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, v1)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, v2)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, v2)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, v1)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, v2)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, v2)
DOUBLE(int nvmlDeviceGetAccountingPids(void *device, unsigned int *count, unsigned int *pids)) {
    (void)device;
    return *count ? pids[0] = 4242, *count = 1, 0 : 7;
}
DOUBLE(int nvmlDeviceGetProcessUtilization(void *device, void *samples, unsigned int *count, unsigned long long since)) {
    (void)device, (void)samples, (void)since;
    return *count = 1, 0;
}
