/* Making the two files of a new slice. For slicectl and for the hook that prepares a container. */
#define _GNU_SOURCE
#include "making.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

int complain(int status, const char *what, const char *which) {
    fprintf(stderr, "slice: %s: %s\n", what, which);
    return status;
}

bool parse_size(const char *text, uint64_t *bytes) {
    static const struct { const char *unit; uint64_t factor; } units[] = {
        {"", 1}, {"B", 1}, {"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1000}, {"MB", 1000000}, {"GB", 1000000000}};
    char *end;
    errno = 0;
    unsigned long long number = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : (errno = EINVAL, 0);
    for (size_t i = 0; errno == 0 && i < sizeof units / sizeof *units; i++)
        if (strcmp(end, units[i].unit) == 0)
            return !__builtin_mul_overflow((uint64_t)number, units[i].factor, bytes) && *bytes <= SLICE_MOST;
    return false;
}

bool parse_card(const char *text, uint8_t uuid[16], uint64_t *bytes) { /* GPU-xxxxxxxx-xxxx-...=SIZE */
    int digits = 0;
    if (strncmp(text, "GPU-", 4) != 0) return false;
    for (text += 4; *text && *text != '='; text++) {
        if (*text == '-') continue;
        if (!isxdigit((unsigned char)*text) || digits == 32) return false;
        int value = isdigit((unsigned char)*text) ? *text - '0' : tolower((unsigned char)*text) - 'a' + 10;
        uuid[digits / 2] = (uint8_t)(digits % 2 ? uuid[digits / 2] << 4 | value : value);
        digits++;
    }
    return digits == 32 && *text == '=' && parse_size(text + 1, bytes);
}

/* Written beside and linked into place: nobody ever sees half a file, and an existing one is never replaced. */
static int write_file(const char *directory, const char *name, const void *content, size_t length, size_t size, mode_t mode) {
    char path[PATH_MAX], fresh[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path ||
        snprintf(fresh, sizeof fresh, "%s/.%s.%d", directory, name, (int)getpid()) >= (int)sizeof fresh)
        return complain(FAILED, directory, strerror(ENAMETOOLONG));
    int descriptor = open(fresh, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    bool good = descriptor >= 0 && write(descriptor, content, length) == (ssize_t)length &&
                ftruncate(descriptor, (off_t)size) == 0 && fchmod(descriptor, mode) == 0 && link(fresh, path) == 0;
    int failure = errno;
    if (descriptor >= 0) close(descriptor), unlink(fresh);
    return good ? DONE : complain(FAILED, path, failure == EEXIST ? "there is a slice already; remove it first" : strerror(failure));
}

int slice_create(const char *directory, const struct slice_wish *wish) {
    static union { struct slice_limits is; char bytes[SLICE_LIMITS_SIZE]; } limits;
    static union { struct slice_usage is; char bytes[SLICE_USAGE_SIZE]; } usage;
    uint64_t id;
    if (getrandom(&id, sizeof id, 0) != sizeof id) return complain(FAILED, "no random number", strerror(errno));
    memcpy(limits.is.magic, SLICE_LIMITS_MAGIC, 8);
    memcpy(usage.is.magic, SLICE_USAGE_MAGIC, 8);
    limits.is.version = usage.is.version = SLICE_VERSION;
    limits.is.id = usage.is.id = id;
    limits.is.cards = wish->cards;
    usage.is.slots = SLICE_SLOTS;
    for (uint32_t i = 0; i < wish->cards; i++) {
        for (uint32_t other = 0; other < i; other++)
            if (memcmp(wish->uuid[other], wish->uuid[i], 16) == 0) return complain(MISUSED, directory, "twice the same card");
        memcpy(limits.is.card[i].uuid, wish->uuid[i], 16);
        limits.is.card[i].context = wish->context;
        atomic_store(&limits.is.card[i].word, slice_pack(wish->bytes[i], wish->uuid[i], id));
    }
    limits.is.check = slice_check(&limits.is);
    if (mkdir(directory, 0755) != 0 && errno != EEXIST) return complain(FAILED, directory, strerror(errno));
    /* The usage file is written by the task, whoever its processes run as; the directory keeps strangers out. */
    int status = write_file(directory, "usage", usage.bytes, SLICE_HEADER_SIZE, SLICE_USAGE_SIZE, 0666);
    return status ? status : write_file(directory, "limits", limits.bytes, SLICE_LIMITS_SIZE, SLICE_LIMITS_SIZE, 0644);
}
