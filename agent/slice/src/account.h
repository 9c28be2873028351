/* The account of one slice: how much each process of the task holds on each card, and whether it may hold more. */
#ifndef TESSERA_SLICE_ACCOUNT_H
#define TESSERA_SLICE_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

struct slice_row {
    uint32_t pid;
    uint64_t cards; /* bit n: it has a context on card n */
    uint64_t used[16], peak[16], refused[16];
};

/* Find and check both files: true when they are there and sound. Says one line on stderr, once, when they are not. */
bool slice_open(void);
/* The same for a directory that is named; for slicectl. On failure *why says what is wrong. */
bool slice_open_at(const char *directory, bool write_limits, const char **why);

int slice_cards(void);
int slice_card_of(const uint8_t uuid[16]);    /* the card's place in the files, or -1: not in this slice */
const uint8_t *slice_uuid(int card);
uint64_t slice_limit(int card);               /* bytes; 0 for -1 and for a word that does not check */
bool slice_limit_sound(int card);
uint64_t slice_context_cost(int card);        /* bytes */
uint64_t slice_used(int card);                /* bytes, all living processes of the task */

bool slice_charge(int card, uint64_t bytes);  /* false: it does not fit (or the files broke), nothing was charged */
void slice_force(int card, uint64_t bytes);   /* charge what is already there, even above the limit */
void slice_release(int card, uint64_t bytes);
void slice_refused(int card);                 /* count one refusal */
uint64_t slice_refusals(int card);            /* of all processes, also of those that are gone */
void slice_unnamed(void);                     /* what this process holds is no process of the task: it stays unlisted */
void slice_context(int card, bool there);     /* this process has a context on the card, or no longer */
bool slice_reap(void);                        /* empty the slots of dead processes: true when there was one */

int slice_rows(struct slice_row *rows, int room); /* living processes; the number there are */
bool slice_resize(int card, uint64_t bytes, uint64_t *used); /* false: *used is more than that */
uint64_t slice_recovered(void);

#endif
