/* slicehook: gives a container its slice before its first program starts, and takes it away afterwards.
 *
 * The container runtime runs it on the host, as a CDI spec of the agent's says, with the OCI state on standard input:
 *   slicehook enter HOME [CONTEXT]   as a createContainer hook: in the container's mount namespace, before its root is
 *                                    entered. HOME has the shims; CONTEXT is what a context costs, in bytes
 *   slicehook leave HOME             as a poststop hook
 * How much of which card comes from the container's environment: the platform alone sets TESSERA_* there. Only a card
 * that the device plugin gave to this very container (TESSERA_GPU_n, by CDI) is taken. Whatever is wrong, the container
 * does not start. Source: the OCI runtime specification, config.md and runtime.md. */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "json.h"
#include "making.h"

#define INSIDE "/run/tessera"
enum { SHIMS = 2, MOST_COPIES = 64, MOST_TEXT = 16 << 20 };
static const char *const names[SHIMS] = {"libcuda.so", "libnvidia-ml.so"};
static const char *const shims[SHIMS] = {"libcuda.so.1", "libnvidia-ml.so.1"};

struct container {
    char *bundle, *id, *root, *spec;
    unsigned long uid;
};

static struct copy { char *path; int shim; bool given; } copies[MOST_COPIES]; /* given: mounted into the container */
static int found;
static dev_t image;

static int fail(const char *what) { return complain(FAILED, what, strerror(errno)); }

/* -- what the runtime tells ---------------------------------------------------------------------------------------- */

static char *read_all(int descriptor) {
    char *text = calloc(1, MOST_TEXT);
    size_t length = 0;
    for (ssize_t more; text && length < MOST_TEXT - 1; length += (size_t)more)
        if ((more = read(descriptor, text + length, MOST_TEXT - 1 - length)) <= 0) break;
    return text;
}

static bool is_name(const char *id) {
    for (const char *at = id; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("_.-", *at)) return false;
    return *id && *id != '.' && strlen(id) < 129;
}

static int read_state(struct container *box) {
    const char *state = read_all(STDIN_FILENO);
    box->id = json_text(json_member(state, "id"));
    box->bundle = json_text(json_member(state, "bundle"));
    return box->id && box->bundle && is_name(box->id) ? DONE : complain(FAILED, "the runtime's state", "no id, or no bundle");
}

static int read_spec(struct container *box) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/config.json", box->bundle);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return fail(path);
    box->spec = read_all(descriptor);
    close(descriptor);
    char *root = json_text(json_member(json_member(box->spec, "root"), "path"));
    if (!root) return complain(FAILED, path, "it names no root");
    if (asprintf(&box->root, *root == '/' ? "%.0s%s" : "%s/%s", box->bundle, root) < 0) return fail("memory");
    const char *uid = json_member(json_member(json_member(box->spec, "process"), "user"), "uid");
    box->uid = uid ? strtoul(uid, NULL, 10) : 0;
    return DONE;
}

static char *environment(const struct container *box, const char *name) { /* the last one counts */
    const char *list = json_member(json_member(box->spec, "process"), "env"), *item;
    char *value = NULL;
    for (int place = 0; (item = json_item(list, place)); place++) {
        char *text = json_text(item);
        if (text && strncmp(text, name, strlen(name)) == 0 && text[strlen(name)] == '=') value = strdup(text + strlen(name) + 1);
        free(text);
    }
    return value;
}

static bool was_given(const struct container *box, const char *uuid) {
    for (int place = 0; place < 256; place++) {
        char name[32], *value;
        snprintf(name, sizeof name, "TESSERA_GPU_%d", place);
        if ((value = environment(box, name)) && strcmp(value, uuid) == 0) return true;
    }
    return false;
}

static int read_wish(const struct container *box, struct slice_wish *wish) {
    char *cards = environment(box, "CUDA_VISIBLE_DEVICES"), *sizes = environment(box, "TESSERA_GPU_MEMORY_MIB");
    char *card, *size, *next_card = NULL, *next_size = NULL, word[128];
    if (!cards || !sizes) return complain(FAILED, box->id, "its environment names no cards and no memory");
    card = strtok_r(cards, ",", &next_card), size = strtok_r(sizes, ",", &next_size);
    for (; card && size; card = strtok_r(NULL, ",", &next_card), size = strtok_r(NULL, ",", &next_size)) {
        snprintf(word, sizeof word, "%s=%sMiB", card, size);
        if (wish->cards == SLICE_CARDS || !parse_card(word, wish->uuid[wish->cards], &wish->bytes[wish->cards]))
            return complain(FAILED, "no card and its memory", word);
        if (!was_given(box, card)) return complain(FAILED, "the kubelet did not give this card", card);
        wish->cards++;
    }
    return wish->cards && !card && !size ? DONE : complain(FAILED, box->id, "as many cards as sizes are needed");
}

/* -- the folder of the slice --------------------------------------------------------------------------------------- */

/* Which task of the platform it is: for the agent, which tells the platform what its slice uses. */
static int name_task(const struct container *box, const char *folder) {
    char path[PATH_MAX], *task = environment(box, "TESSERA_TASK");
    if (!task || strlen(task) != 32 || strspn(task, "0123456789abcdef") != 32) return DONE; /* then nobody is told */
    snprintf(path, sizeof path, "%s/task", folder);
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    if (file < 0) return fail(path);
    int status = write(file, task, 32) == 32 ? DONE : fail(path);
    close(file);
    return status;
}

/* HOME/tasks/ID: slice/ with the two files, task with the task's uuid, driver/ with empty files to mount the real
 * libraries over. */
static int make_folder(const struct container *box, const char *home, const struct slice_wish *wish, char folder[PATH_MAX - 64]) {
    char path[PATH_MAX];
    snprintf(folder, PATH_MAX - 64, "%s/tasks/%s", home, box->id);
    snprintf(path, sizeof path, "%s/tasks", home);
    if (mkdir(path, 0711) != 0 && errno != EEXIST) return fail(path);
    if (mkdir(folder, 0755) != 0) return fail(folder);
    snprintf(path, sizeof path, "%s/driver", folder);
    if (mkdir(path, 0755) != 0) return fail(path);
    for (int i = 0; i < SHIMS; i++) {
        snprintf(path, sizeof path, "%s/driver/%s", folder, shims[i]);
        int empty = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
        if (empty < 0) return fail(path);
        close(empty);
    }
    snprintf(path, sizeof path, "%s/slice", folder);
    int status = slice_create(path, wish);
    snprintf(path, sizeof path, "%s/slice/usage", folder);
    /* the agent reads it as root's group: it may have no capability to read what is another account's */
    if (!status && (chown(path, (uid_t)box->uid, 0) != 0 || chmod(path, 0660) != 0)) status = fail(path);
    return status ? status : name_task(box, folder);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)info, (void)kind, (void)at;
    return remove(path);
}

/* -- inside the container's root ----------------------------------------------------------------------------------- */

static bool is_native(const char *path) { /* as this program; source: elf(5) */
    char mine[20], its[20];
    int self = open("exe", O_RDONLY | O_CLOEXEC), file = open(path, O_RDONLY | O_CLOEXEC); /* see enter() for "exe" */
    bool same = self >= 0 && file >= 0 && read(self, mine, 20) == 20 && read(file, its, 20) == 20 &&
                memcmp(its, "\177ELF", 4) == 0 && its[4] == mine[4] && memcmp(its + 18, mine + 18, 2) == 0;
    if (self >= 0) close(self);
    if (file >= 0) close(file);
    return same;
}

static int look_at(const char *path, const struct stat *info, int kind, struct FTW *at) {
    if (kind == FTW_D && info->st_dev != image && strcmp(path, "/usr/local/nvidia") != 0) return FTW_SKIP_SUBTREE;
    for (int i = 0; kind == FTW_F && S_ISREG(info->st_mode) && i < SHIMS; i++) {
        if (strncmp(path + at->base, names[i], strlen(names[i])) != 0 || !is_native(path)) continue;
        if (found == MOST_COPIES) return FTW_STOP;
        copies[found++] = (struct copy){strdup(path), i, info->st_dev != image};
    }
    return FTW_CONTINUE;
}

/* source: a descriptor. The working directory is the host's /proc/self/fd, target is inside the container's root. */
static int put(int source, const char *target, unsigned long more) {
    char name[16];
    snprintf(name, sizeof name, "%d", source);
    if (mount(name, target, NULL, MS_BIND, NULL) != 0) return fail(target);
    if (more && mount(NULL, target, NULL, MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV | more, NULL) != 0) return fail(target);
    return DONE;
}

static int open_path(const char *folder, const char *name) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int descriptor = open(path, O_PATH | O_CLOEXEC);
    if (descriptor < 0) fail(path);
    return descriptor;
}

static int open_real(int real[SHIMS]) {
    for (int i = 0; i < SHIMS; i++) {
        real[i] = -1;
        for (int n = 0; n < found && real[i] < 0; n++)
            if (copies[n].shim == i && copies[n].given) real[i] = open(copies[n].path, O_PATH | O_CLOEXEC);
        if (real[i] < 0) return complain(FAILED, shims[i], "the driver's is not in the container: NVIDIA's toolkit gives it");
    }
    return DONE;
}

/* The real libraries where the shims look for them, and the shims over every copy, the real ones included. */
static int cover(const int ours[SHIMS], const int real[SHIMS]) {
    for (int i = 0; i < SHIMS; i++) {
        char target[64];
        snprintf(target, sizeof target, INSIDE "/driver/%s", shims[i]);
        if (put(real[i], target, MS_RDONLY)) return FAILED;
    }
    for (int n = 0; n < found; n++)
        if (put(ours[copies[n].shim], copies[n].path, MS_RDONLY)) return FAILED;
    return DONE;
}

static int enter(struct container *box, const char *home, const char *context) {
    struct slice_wish wish = {.context = strtoull(context, NULL, 10)};
    struct stat info;
    char folder[PATH_MAX - 64];
    if (read_spec(box) || read_wish(box, &wish) || make_folder(box, home, &wish, folder)) return FAILED;
    int slice = open_path(folder, "slice"), usage = open_path(folder, "slice/usage"), driver = open_path(folder, "driver");
    int ours[SHIMS] = {open_path(home, shims[0]), open_path(home, shims[1])};
    int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (slice < 0 || usage < 0 || driver < 0 || ours[0] < 0 || ours[1] < 0 || self < 0) return FAILED;
    /* From here a path means the container's, whatever links its image has; a relative one the host's /proc/self. */
    if (chroot(box->root) != 0 || fchdir(self) != 0) return fail(box->root);
    if (stat("/", &info) != 0) return fail("the container's root");
    image = info.st_dev;
    if (nftw("/", look_at, 32, FTW_PHYS | FTW_ACTIONRETVAL) != 0) return complain(FAILED, "the image", "it cannot be searched");
    int real[SHIMS];
    if (open_real(real)) return FAILED;
    static const char *const made[] = {"/run", INSIDE, INSIDE "/slice", INSIDE "/driver"};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (mkdir(made[i], 0755) != 0 && errno != EEXIST) return fail(made[i]);
    if (chdir("fd") != 0) return fail("/proc/self/fd");
    if (put(slice, INSIDE "/slice", MS_RDONLY) || put(usage, INSIDE "/slice/usage", 0)) return FAILED;
    return put(driver, INSIDE "/driver", MS_RDONLY) ? FAILED : cover(ours, real);
}

static int leave(const struct container *box, const char *home) {
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/tasks/%s", home, box->id);
    if (access(folder, F_OK) != 0) return DONE;
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0 ? DONE : fail(folder);
}

int main(int count, char **words) {
    struct container box = {0};
    bool entering = count >= 3 && strcmp(words[1], "enter") == 0, leaving = count == 3 && strcmp(words[1], "leave") == 0;
    if (!entering && !leaving) return fputs("usage: slicehook enter HOME [CONTEXT] | leave HOME\n", stderr), MISUSED;
    if (read_state(&box)) return FAILED;
    if (leaving) return leave(&box, words[2]);
    pid_t child = fork(); /* it cannot come back out of the container's root; what it made is removed where it failed */
    if (child == 0) _exit(enter(&box, words[2], count > 3 ? words[3] : "0"));
    int status = FAILED;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return leave(&box, words[2]), FAILED;
    return DONE;
}
