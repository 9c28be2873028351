/* A double of NVML: a DGX A100 as published (NVIDIA/nccl#1505), eight cards behind NVSwitch, four NUMA nodes with cards.
 *
 * The file that NVML_DOUBLE names says what is different now, a line each; it may change while a program runs:
 *   count N          so many cards            lost I       the card in place I fell off the bus
 *   remap_failed I   a bad row stays bad       mig I        the card is cut by MIG
 *   instance P S     place P % 10 of card P / 10 has an instance of S slices of compute (1 to 4, 7); 0: half of one of
 *                    2 slices, 5: the driver does not name it
 *   xid I N          a critical error, told once in each process
 *   broken           no card answers           init N       NVML does not start, with error N
 *   v100             they are V100 of 32 GB    first N      the first card is in place N
 *   busy I N         card I is busy to N % (else 97)        unsampled I  the driver keeps no samples of card I
 *   process I P N M  process P takes N % of card I and holds M MiB of it        used I M  M MiB of card I are in use
 *   hot I            card I has 91 degrees                  narrow I     its PCIe link has 8 of 16 lanes
 *   ecc I N          N errors that could not be corrected   pending I    a bad row is replaced at the next reset
 *   braked I         the power brake holds it down          replays I N  its links sent N messages again each
 *   trained I N      its links were trained again N times each
 *   slowed I         it is slowed down by its heat          blind        neither energy, clocks nor processes are told
 *   gpm I N          card, or instance, I tells by GPM that its multiprocessors are busy to N %, tensor cores to N / 2
 *   heated I N       its clocks are held down by heat for N ms of each second
 *   hangs            whoever asks for a temperature waits for ever
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OK, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TIMEOUT = 10, TOO_SMALL = 7, LOST = 15, UNKNOWN = 999, CARDS = 8,
       PLACES = 7 };
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { char legacy[16]; unsigned int domain, bus, device, id_pci, id_subsystem; char id[32]; } pci_v3;
typedef struct { unsigned int gpu, memory; } utilization;
typedef struct { void *device; unsigned long long type, data; unsigned int gi, ci; } event;
typedef struct { unsigned int pid; unsigned long long at; unsigned int sm, memory, encoder, decoder; } process_sample;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } process_info;
typedef struct { unsigned long long at; union { double d; unsigned int u; unsigned long long l; } value; } sample;

typedef struct { unsigned int id, scope; long long at, took; int type, result; union { double d; unsigned long long l; } value; } field_value;
typedef struct { unsigned int version, supported; } gpm_support;
typedef struct { int of; unsigned long long ns; } gpm_sample;
typedef struct { unsigned int id; int result; double value; char *names[3]; } gpm_metric;
typedef struct { unsigned int version, count; gpm_sample *before, *after; gpm_metric metrics[]; } gpm_metrics;

static int cards[CARDS] = {0, 1, 2, 3, 4, 5, 6, 7};
static const char *buses[CARDS] = {"07", "0F", "47", "4E", "87", "90", "B7", "BD"};
static const int numa[CARDS] = {3, 3, 1, 1, 7, 7, 5, 5};
static int told[CARDS];
static int instances[10 * CARDS]; /* as cards: the number of each */

/* The lines of the file, read again only when it changed: tests replace it as a whole. */
static const char *profile(void) {
    static __thread char text[8192];
    static __thread struct stat known;
    const char *path = getenv("NVML_DOUBLE");
    struct stat now;
    FILE *file;
    if (!path || stat(path, &now)) return "";
    if (now.st_ino == known.st_ino && now.st_mtim.tv_sec == known.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == known.st_mtim.tv_nsec) return text;
    if (!(file = fopen(path, "r"))) return "";
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    known = now;
    return text;
}
static const char *after_line(const char *line) { return (line = strchr(line, '\n')) ? line + 1 : ""; }
/* The number behind `word` (and `place`, unless that is -1) in the file, or `otherwise`. */
static int said(const char *word, int place, int otherwise) {
    char name[50];
    int one, two, fields, found = otherwise;
    for (const char *line = profile(); *line; line = after_line(line)) {
        size_t length = strlen(word);
        if (strncmp(line, word, length)) continue;
        fields = sscanf(line, "%49s %d %d", name, &one, &two);
        if (fields < 1 || strcmp(name, word)) continue;
        if (place < 0) found = fields > 1 ? one : 1;
        else if (fields > 1 && one == place) found = fields > 2 ? two : 1;
    }
    return found;
}
/* Fill `found` with up to `most` lines `process place P N M`; return how many there are. */
static unsigned int processes(int place, int found[][3], unsigned int most) {
    unsigned int count = 0;
    int card, pid, percent, mib;
    for (const char *line = profile(); *line; line = after_line(line))
        if (sscanf(line, "process %d %d %d %d", &card, &pid, &percent, &mib) == 4 && card == place && count < most) {
            found[count][0] = pid, found[count][1] = percent, found[count][2] = mib;
            count++;
        }
    return count;
}
static int is_instance(void *device) { return (int *)device >= instances && (int *)device < instances + 10 * CARDS; }
static int slices(void *device) { return said("instance", *(int *)device, -1); }
static int check(void *device) {
    int place = is_instance(device) ? *(int *)device / 10 : *(int *)device;
    return said("broken", -1, 0) ? UNKNOWN : said("lost", place, 0) ? LOST : OK;
}
#define CARD(declaration) declaration; declaration
#define ANSWER(statement) do { int wrong = check(device); if (wrong) return wrong; statement; return OK; } while (0)

CARD(int nvmlInitWithFlags(unsigned int flags)) { (void)flags; return said("init", -1, OK); }
CARD(int nvmlInit_v2(void)) { return said("init", -1, OK); }
CARD(int nvmlShutdown(void)) { return OK; }
CARD(int nvmlSystemGetDriverVersion(char *text, unsigned int length)) { snprintf(text, length, "580.95.05"); return OK; }
CARD(int nvmlDeviceGetCount_v2(unsigned int *count)) { *count = (unsigned int)said("count", -1, CARDS); return OK; }
CARD(int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)) {
    if (index >= CARDS) return INVALID;
    *device = &cards[index];
    return check(*device);
}
CARD(int nvmlDeviceGetUUID(void *device, char *text, unsigned int length)) {
    const char *form = said("v100", -1, 0) ? "GPU-00000000-0000-0000-0000-%012x" : "GPU-a1000000-0000-4000-8000-%012x";
    int number = *(int *)device + said("v100", -1, 0); /* as the slice library's double counts */
    if (is_instance(device)) ANSWER(snprintf(text, length, "MIG-a1000000-0000-5000-8000-%012x", number));
    ANSWER(snprintf(text, length, form, number));
}
CARD(int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)) {
    char mine[80];
    for (int place = 0; place < CARDS; place++)
        if (nvmlDeviceGetUUID(*device = &cards[place], mine, sizeof mine) == OK && strcmp(mine, uuid) == 0) return OK;
    return INVALID;
}
CARD(int nvmlDeviceGetIndex(void *device, unsigned int *index)) {
    ANSWER(*index = (unsigned int)(*(int *)device + said("first", -1, 0)));
}
CARD(int nvmlDeviceGetName(void *device, char *text, unsigned int length)) {
    if (is_instance(device)) {
        const char *names[] = {" MIG 1c.2g.10gb", " MIG 1g.5gb", " MIG 2g.10gb", " MIG 3g.20gb", " MIG 4g.20gb", "", "", " MIG 7g.40gb"};
        ANSWER(snprintf(text, length, "NVIDIA A100-SXM4-40GB%s", names[slices(device) & 7]));
    }
    ANSWER(snprintf(text, length, said("v100", -1, 0) ? "Tesla V100-SXM2-32GB" : "NVIDIA A100-SXM4-40GB"));
}
CARD(int nvmlDeviceGetPciInfo_v3(void *device, pci_v3 *pci)) {
    ANSWER(snprintf(pci->id, sizeof pci->id, "00000000:%s:00.0", buses[*(int *)device]));
}
CARD(int nvmlDeviceGetMemoryInfo(void *device, memory_v1 *memory)) {
    unsigned long long used = (unsigned long long)said("used", *(int *)device, 1029);
    ANSWER(*memory = ((memory_v1){40960ull << 20, (40960ull - used) << 20, used << 20}));
}
CARD(int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *memory)) {
    unsigned long long total = said("v100", -1, 0) ? 32768 : 40960, reserved = said("v100", -1, 0) ? 258 : 429;
    if (is_instance(device)) {
        total = 4864ull * (unsigned)(slices(device) ? slices(device) : 2);
        ANSWER(*memory = ((memory_v2){memory->version, total << 20, 0, total << 20, 0}));
    }
    ANSWER(*memory = ((memory_v2){memory->version, total << 20, reserved << 20, (total - 1029) << 20, (unsigned long long)said("used", *(int *)device, 600) << 20}));
}
CARD(int nvmlDeviceGetMemoryAffinity(void *device, unsigned int size, unsigned long *nodes, int scope)) {
    (void)scope;
    ANSWER(memset(nodes, 0, size * sizeof *nodes); nodes[0] = 1ul << numa[*(int *)device]);
}
CARD(int nvmlDeviceGetMigMode(void *device, unsigned int *current, unsigned int *pending)) {
    ANSWER(*current = *pending = (unsigned int)said("mig", *(int *)device, 0));
}
CARD(int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned int *count)) { ANSWER(*count = PLACES); }
CARD(int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned int place, void **instance)) {
    int number = 10 * *(int *)device + (int)place;
    if (place >= PLACES) return INVALID;
    instances[number] = number;
    *instance = &instances[number];
    return slices(*instance) < 0 ? NOT_FOUND : check(device);
}
CARD(int nvmlDeviceGetRemappedRows(void *device, unsigned int *corrected, unsigned int *bad, unsigned int *pending,
                                   unsigned int *failed)) {
    ANSWER(*corrected = *bad = 0; *pending = (unsigned int)said("pending", *(int *)device, 0); *failed = (unsigned int)said("remap_failed", *(int *)device, 0));
}
CARD(int nvmlDeviceGetNvLinkState(void *device, unsigned int link, unsigned int *active)) {
    if (link >= 12) return INVALID;
    ANSWER(*active = 1);
}
CARD(int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned int link, unsigned int *type)) {
    (void)link;
    ANSWER(*type = 2);
}
CARD(int nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, int *level)) {
    ANSWER(*level = *(int *)device / 2 == *(int *)other / 2 ? 20 : 50);
}
CARD(int nvmlDeviceGetUtilizationRates(void *device, utilization *rates)) { ANSWER(*rates = ((utilization){97, 40})); }
CARD(int nvmlDeviceGetSamples(void *device, int type, unsigned long long after, int *kind, unsigned int *count,
                              sample *samples)) {
    enum { KEPT = 100, PERIOD_US = 166667 };
    struct timespec now;
    unsigned long long newest;
    unsigned int n = 0;
    (void)type;
    clock_gettime(CLOCK_REALTIME, &now);
    newest = ((unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000) / PERIOD_US * PERIOD_US;
    if (is_instance(device) || said("unsampled", *(int *)device, 0)) return NOT_FOUND;
    *kind = 1;
    if (!samples) ANSWER(*count = KEPT);
    for (unsigned int back = KEPT; back-- > 0;) {
        unsigned long long at = newest - back * (unsigned long long)PERIOD_US;
        if (at > after && n < *count) samples[n++] = (sample){at, {.u = (unsigned int)said("busy", *(int *)device, 97)}};
    }
    ANSWER(*count = n);
}
CARD(int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *degrees)) {
    (void)sensor;
    while (said("hangs", -1, 0)) sleep(1);
    ANSWER(*degrees = said("hot", *(int *)device, 0) ? 91 : 61);
}
CARD(int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatt)) { ANSWER(*milliwatt = 250500); }
CARD(int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoule)) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (said("blind", -1, 0)) return NOT_SUPPORTED;
    ANSWER(*millijoule = (unsigned long long)((double)now.tv_sec * 250500 + (double)now.tv_nsec * 250500 / 1e9));
}
CARD(int nvmlDeviceGetClockInfo(void *device, int type, unsigned int *mhz)) {
    if (said("blind", -1, 0)) return NOT_SUPPORTED;
    ANSWER(*mhz = type == 1 ? 1410 : 1215);
}
static unsigned long long uptime_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}
/* PCIe: 3 MiB/s in, 1 out. NVLink: 20 and 10. Held down by power for 100 ms of each second, and by heat as told. */
CARD(int nvmlDeviceGetFieldValues(void *device, int count, field_value *values)) {
    unsigned long long ns = uptime_ns(), s_1024 = ns / 1000000000ull * 1024, heat = (unsigned long long)said("heated", *(int *)device, 0);
    if (said("blind", -1, 0)) return NOT_SUPPORTED;
    for (int n = 0; n < count; n++) {
        field_value *one = &values[n];
        one->type = 3, one->result = OK;
        if (one->id == 197 || one->id == 198) one->value.l = (one->id == 198 ? 3 : 1) * s_1024 * 1024;
        else if (one->id == 138 || one->id == 139) {
            one->value.l = (one->id == 139 ? 20 : 10) * s_1024;
            if (one->scope != 0xffffffffu) one->result = INVALID;
        } else if (one->id == 74) one->value.l = ns / 10;
        else if (one->id == 270) one->value.l = ns / 1000 * heat;
        else if (one->id == 269 || one->id == 271) one->value.l = 0;
        else one->result = NOT_SUPPORTED;
    }
    return check(device);
}
CARD(int nvmlGpmQueryDeviceSupport(void *device, gpm_support *support)) {
    int place = *(int *)device, tells = said("gpm", place, -1) >= 0;
    for (int part = 0; part < PLACES; part++) tells |= said("gpm", 10 * place + part, -1) >= 0 && said("mig", place, 0);
    ANSWER(support->supported = (unsigned int)tells);
}
CARD(int nvmlGpmSampleAlloc(gpm_sample **made)) { return (*made = calloc(1, sizeof **made)) ? OK : UNKNOWN; }
CARD(int nvmlGpmSampleFree(gpm_sample *made)) { free(made); return OK; }
CARD(int nvmlGpmSampleGet(void *device, gpm_sample *made)) { ANSWER(made->of = *(int *)device; made->ns = uptime_ns()); }
CARD(int nvmlDeviceGetGpuInstanceId(void *device, unsigned int *id)) { ANSWER(*id = (unsigned int)(*(int *)device % 10)); }
CARD(int nvmlGpmMigSampleGet(void *device, unsigned int id, gpm_sample *made)) {
    ANSWER(made->of = 10 * *(int *)device + (int)id; made->ns = uptime_ns());
}
CARD(int nvmlGpmMetricsGet(gpm_metrics *asked)) {
    int percent = said("gpm", asked->after->of, -1);
    if (asked->version != 1 || asked->after->ns <= asked->before->ns || asked->after->of != asked->before->of) return INVALID;
    for (unsigned int n = 0; n < asked->count; n++) {
        gpm_metric *one = &asked->metrics[n];
        one->result = OK;
        switch (one->id) {
        case 1: case 2: one->value = percent; break;   /* graphics, multiprocessors */
        case 5: one->value = percent / 2.0; break;     /* tensor cores */
        case 10: one->value = 14e16; break;            /* memory: no value at all */
        case 20: case 21: one->value = 1; break;       /* PCIe, MiB/s */
        default: one->result = NOT_SUPPORTED;
        }
    }
    return OK;
}
CARD(int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *count)) {
    (void)counter;
    ANSWER(*count = type == 1 ? (unsigned long long)said("ecc", *(int *)device, 0) : 0);
}
CARD(int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned int *lanes)) {
    ANSWER(*lanes = said("narrow", *(int *)device, 0) ? 8 : 16);
}
CARD(int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned int *lanes)) { ANSWER(*lanes = 16); }
CARD(int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *reasons)) {
    int place = *(int *)device; /* hardware thermal slowdown, power brake */
    ANSWER(*reasons = (said("slowed", place, 0) ? 0x40 : 0) | (said("braked", place, 0) ? 0x80 : 0));
}
CARD(int nvmlDeviceGetNvLinkErrorCounter(void *device, unsigned int link, int kind, unsigned long long *count)) {
    if (link >= 12) return INVALID;
    ANSWER(*count = (unsigned long long)said(kind == 0 ? "replays" : "trained", *(int *)device, 0));
}
CARD(int nvmlDeviceGetProcessUtilization(void *device, process_sample *samples, unsigned int *count,
                                         unsigned long long after)) {
    int found[16][3];
    unsigned int there = processes(*(int *)device, found, 16);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    (void)after;
    if (said("blind", -1, 0)) return NOT_SUPPORTED;
    if (!there) return NOT_FOUND;
    if (!samples) {
        *count = there;
        return TOO_SMALL;
    }
    for (unsigned int n = 0; n < there && n < *count; n++)
        samples[n] = (process_sample){(unsigned int)found[n][0],
            (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000,
            (unsigned int)found[n][1], 0, 0, 0};
    ANSWER(*count = there);
}
CARD(int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, process_info *infos)) {
    int found[16][3];
    unsigned int there = processes(*(int *)device, found, 16), room = *count;
    if (said("blind", -1, 0)) return NOT_SUPPORTED;
    *count = there;
    if (room < there) return TOO_SMALL;
    for (unsigned int n = 0; n < there; n++)
        infos[n] = (process_info){(unsigned int)found[n][0], (unsigned long long)found[n][2] << 20, 0, 0};
    return check(device);
}

CARD(int nvmlEventSetCreate(void **set)) { static int the_set; *set = &the_set; return OK; }
CARD(int nvmlEventSetFree(void *set)) { (void)set; return OK; }
CARD(int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set)) {
    (void)types, (void)set;
    return check(device);
}
CARD(int nvmlEventSetWait_v2(void *set, event *data, unsigned int milliseconds)) {
    (void)set;
    for (unsigned int waited = 0;; waited += 10) {
        for (int place = 0; place < CARDS; place++) {
            int xid = said("xid", place, 0);
            if (xid && told[place] != xid) {
                told[place] = xid;
                *data = (event){&cards[place], 8, (unsigned long long)xid, 0, 0};
                return OK;
            }
        }
        if (waited >= milliseconds) return TIMEOUT;
        usleep(10000);
    }
}
