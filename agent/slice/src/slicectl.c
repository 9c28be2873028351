/* slicectl: make, show, resize and tend the two files of a slice. For the agent and for whoever must look by hand. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "account.h"
#include "format.h"

enum { DONE = 0, FAILED = 1, MISUSED = 2, IN_USE = 3 };

static const char usage_text[] =
    "usage: slicectl create DIR GPU-UUID=SIZE... [--context SIZE]   a new slice: one or more cards\n"
    "       slicectl show DIR [--json]                              limits, use, and every living process\n"
    "       slicectl resize DIR GPU-UUID=SIZE                       up, or down to what is used (else exit status 3)\n"
    "       slicectl tend DIR                                       for the agent: each line of input, words GPU-UUID=SIZE,\n"
    "                                                               charges that besides the processes; answers as --json\n"
    "SIZE: bytes, or a number with KiB, MiB, GiB, kB, MB, GB. --context: what one context costs on each card.\n";

static int complain(int status, const char *what, const char *which) {
    fprintf(stderr, "slicectl: %s: %s\n", what, which);
    return status;
}

/* -- words --------------------------------------------------------------------------------------------------------- */

static bool parse_size(const char *text, uint64_t *bytes) {
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

static bool parse_card(const char *text, uint8_t uuid[16], uint64_t *bytes) { /* GPU-xxxxxxxx-xxxx-...=SIZE */
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

static const char *uuid_text(const uint8_t *u, char room[48]) {
    snprintf(room, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3],
             u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    return room;
}

/* -- create -------------------------------------------------------------------------------------------------------- */

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

static int create(int count, char **words) {
    static union { struct slice_limits is; char bytes[SLICE_LIMITS_SIZE]; } limits;
    static union { struct slice_usage is; char bytes[SLICE_USAGE_SIZE]; } usage;
    uint64_t bytes[SLICE_CARDS], context = 0, id;
    const char *directory = words[0];
    uint32_t cards = 0;
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--context") == 0) {
            if (++i == count || !parse_size(words[i], &context)) return complain(MISUSED, "not a size", i == count ? "" : words[i]);
            continue;
        }
        if (cards == SLICE_CARDS) return complain(MISUSED, "too many cards", words[i]);
        if (!parse_card(words[i], limits.is.card[cards].uuid, &bytes[cards])) return complain(MISUSED, "not GPU-UUID=SIZE", words[i]);
        for (uint32_t other = 0; other < cards; other++)
            if (memcmp(limits.is.card[other].uuid, limits.is.card[cards].uuid, 16) == 0) return complain(MISUSED, "twice the same card", words[i]);
        cards++;
    }
    if (cards == 0) return fputs(usage_text, stderr), MISUSED;
    if (getrandom(&id, sizeof id, 0) != sizeof id) return complain(FAILED, "no random number", strerror(errno));
    memcpy(limits.is.magic, SLICE_LIMITS_MAGIC, 8);
    memcpy(usage.is.magic, SLICE_USAGE_MAGIC, 8);
    limits.is.version = usage.is.version = SLICE_VERSION;
    limits.is.id = usage.is.id = id;
    limits.is.cards = cards;
    usage.is.slots = SLICE_SLOTS;
    for (uint32_t i = 0; i < cards; i++) {
        limits.is.card[i].context = context;
        atomic_store(&limits.is.card[i].word, slice_pack(bytes[i], limits.is.card[i].uuid, id));
    }
    limits.is.check = slice_check(&limits.is);
    if (mkdir(directory, 0755) != 0 && errno != EEXIST) return complain(FAILED, directory, strerror(errno));
    /* The usage file is written by the task, whoever its processes run as; the directory keeps strangers out. */
    int status = write_file(directory, "usage", usage.bytes, SLICE_HEADER_SIZE, SLICE_USAGE_SIZE, 0666);
    return status ? status : write_file(directory, "limits", limits.bytes, SLICE_LIMITS_SIZE, SLICE_LIMITS_SIZE, 0644);
}

/* -- show ---------------------------------------------------------------------------------------------------------- */

static void show_json(const struct slice_row *rows, int count, const uint64_t *tended) { /* tended: see tend() */
    char text[48];
    const char *comma = "";
    printf("{\"version\": %d, \"recovered_locks\": %" PRIu64 ", \"cards\": [", SLICE_VERSION, slice_recovered());
    for (int card = 0; card < slice_cards(); card++)
        printf("%s{\"uuid\": \"%s\", \"limit_bytes\": %" PRIu64 ", \"used_bytes\": %" PRIu64 ", \"tended_bytes\": %" PRIu64
               ", \"context_bytes\": %" PRIu64 ", \"refused\": %" PRIu64 "}",
               card ? ", " : "", uuid_text(slice_uuid(card), text), slice_limit(card), slice_used(card), tended[card],
               slice_context_cost(card), slice_refusals(card));
    printf("], \"processes\": [");
    for (int i = 0; i < count; i++) {
        if (rows[i].pid == 0) continue; /* what the agent charges */
        printf("%s{\"pid\": %" PRIu32 ", \"cards\": [", comma, rows[i].pid);
        comma = ", ";
        for (int card = 0; card < slice_cards(); card++)
            printf("%s{\"uuid\": \"%s\", \"used_bytes\": %" PRIu64 ", \"peak_bytes\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"context\": %s}",
                   card ? ", " : "", uuid_text(slice_uuid(card), text), rows[i].used[card], rows[i].peak[card],
                   rows[i].refused[card], rows[i].cards >> card & 1 ? "true" : "false");
        printf("]}");
    }
    printf("]}\n");
}

static void show_table(const struct slice_row *rows, int count) {
    char text[48];
    for (int card = 0; card < slice_cards(); card++) {
        printf("%s  limit %" PRIu64 " MiB (%" PRIu64 " bytes), used %" PRIu64 " bytes\n", uuid_text(slice_uuid(card), text),
               slice_limit(card) >> 20, slice_limit(card), slice_used(card));
        for (int i = 0; i < count; i++)
            if (rows[i].pid == 0) printf("  besides the processes: %" PRIu64 " bytes\n", rows[i].used[card]);
            else if (rows[i].used[card] || rows[i].refused[card] || rows[i].cards >> card & 1)
                printf("  process %" PRIu32 ": %" PRIu64 " bytes, at most %" PRIu64 ", refused %" PRIu64 " times\n", rows[i].pid,
                       rows[i].used[card], rows[i].peak[card], rows[i].refused[card]);
    }
}

static int open_slice(const char *directory, bool write_limits) {
    const char *why;
    if (!slice_open_at(directory, write_limits, &why)) return complain(FAILED, directory, why);
    for (int card = 0; card < slice_cards(); card++)
        if (!slice_limit_sound(card)) return complain(FAILED, directory, "a limit is garbled");
    return DONE;
}

static int show(int count, char **words) {
    static struct slice_row rows[SLICE_SLOTS];
    static const uint64_t nothing[SLICE_CARDS];
    bool json = count == 2 && strcmp(words[1], "--json") == 0;
    if (count > 2 || (count == 2 && !json)) return fputs(usage_text, stderr), MISUSED;
    int status = open_slice(words[0], false);
    if (status) return status;
    int processes = slice_rows(rows, SLICE_SLOTS);
    if (json) show_json(rows, processes, nothing);
    else show_table(rows, processes);
    return fflush(stdout) == 0 ? DONE : FAILED;
}

/* -- resize -------------------------------------------------------------------------------------------------------- */

static int resize(int count, char **words) {
    uint8_t uuid[16];
    uint64_t bytes, used;
    char text[64];
    if (count != 2) return fputs(usage_text, stderr), MISUSED;
    if (!parse_card(words[1], uuid, &bytes)) return complain(MISUSED, "not GPU-UUID=SIZE", words[1]);
    int status = open_slice(words[0], true);
    if (status) return status;
    int card = slice_card_of(uuid);
    if (card < 0) return complain(FAILED, "not a card of this slice", words[1]);
    if (slice_resize(card, bytes, &used)) return DONE;
    snprintf(text, sizeof text, "%" PRIu64 " bytes are in use", used);
    return complain(used > bytes ? IN_USE : FAILED, words[1], used > bytes ? text : "the slice's lock could not be taken");
}

/* -- tend ---------------------------------------------------------------------------------------------------------- */

/* What the driver says that the task holds and no call of its processes showed: contexts, modules, rounding. It is
 * charged as a process's own would be, as long as we live. */
static bool charge_besides(char *line, uint64_t *tended) {
    uint8_t uuid[16];
    uint64_t bytes;
    for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
        int card = parse_card(word, uuid, &bytes) ? slice_card_of(uuid) : -1;
        if (card < 0) return complain(MISUSED, "not a card of this slice and a size", word), false;
        if (bytes > tended[card]) slice_force(card, bytes - tended[card]);
        else slice_release(card, tended[card] - bytes);
        tended[card] = bytes;
    }
    slice_unnamed();
    return true;
}

static int tend(const char *directory) {
    static struct slice_row rows[SLICE_SLOTS];
    static char line[SLICE_CARDS * 80];
    uint64_t tended[SLICE_CARDS] = {0};
    int status = open_slice(directory, false);
    while (!status && fgets(line, sizeof line, stdin)) {
        if (!charge_besides(line, tended)) return MISUSED;
        show_json(rows, slice_rows(rows, SLICE_SLOTS), tended);
        if (fflush(stdout) != 0) return FAILED;
    }
    return status;
}

int main(int count, char **words) {
    if (count >= 3 && strcmp(words[1], "create") == 0) return create(count - 2, words + 2);
    if (count >= 3 && strcmp(words[1], "show") == 0) return show(count - 2, words + 2);
    if (count >= 3 && strcmp(words[1], "resize") == 0) return resize(count - 2, words + 2);
    if (count == 3 && strcmp(words[1], "tend") == 0) return tend(words[2]);
    fputs(usage_text, stderr);
    return MISUSED;
}
