/* slicectl: make, show, resize and tend the two files of a slice. For the agent and for whoever must look by hand. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "account.h"
#include "format.h"
#include "making.h"

enum { IN_USE = 3 }; /* besides those of making.h */

static const char usage_text[] =
    "usage: slicectl create DIR GPU-UUID=SIZE... [--context SIZE]   a new slice: one or more cards\n"
    "       slicectl show DIR [--json]                              limits, use, and every living process\n"
    "       slicectl resize DIR GPU-UUID=SIZE                       up, or down to what is used (else exit status 3)\n"
    "       slicectl tend DIR                                       for the agent: each line of input, words GPU-UUID=SIZE,\n"
    "                                                               charges that besides the processes; answers as --json\n"
    "SIZE: bytes, or a number with KiB, MiB, GiB, kB, MB, GB. --context: what one context costs on each card.\n";

/* -- words --------------------------------------------------------------------------------------------------------- */

static const char *uuid_text(const uint8_t *u, char room[48]) {
    snprintf(room, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3],
             u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    return room;
}

/* -- create -------------------------------------------------------------------------------------------------------- */

static int create(int count, char **words) {
    struct slice_wish wish = {0};
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--context") == 0) {
            if (++i == count || !parse_size(words[i], &wish.context)) return complain(MISUSED, "not a size", i == count ? "" : words[i]);
            continue;
        }
        if (wish.cards == SLICE_CARDS) return complain(MISUSED, "too many cards", words[i]);
        if (!parse_card(words[i], wish.uuid[wish.cards], &wish.bytes[wish.cards])) return complain(MISUSED, "not GPU-UUID=SIZE", words[i]);
        wish.cards++;
    }
    return wish.cards ? slice_create(words[0], &wish) : (fputs(usage_text, stderr), MISUSED);
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
