#define _GNU_SOURCE
#include "real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#define NAME(name) #name,
static const char *const names[] = {
#include NAMES
};
#undef NAME
enum { COUNT = sizeof names / sizeof *names };

extern any_function trampoline_table[COUNT]; /* in trampolines.S */

static void *real_library(void) {
    static _Atomic(void *) library;
    void *found = atomic_load(&library);
    /* It is there already, as our dependency; the last slash keeps dlopen from finding ourselves by soname. */
    if (!found) atomic_store(&library, found = dlopen(REAL_LIBRARY, RTLD_LAZY | RTLD_LOCAL));
    return found;
}

any_function real_symbol(const char *name) {
    any_function function = NULL;
    void *library = real_library();
    void *found = library ? dlsym(library, name) : NULL;
    memcpy(&function, &found, sizeof function); /* ISO C has no cast for this */
    return function;
}

static int not_there(void) { return MISSING_ERROR; } /* the driver is older than this name */

any_function trampoline_resolve(unsigned long index) {
    any_function found = index < COUNT ? real_symbol(names[index]) : NULL;
    if (!found) found = (any_function)not_there;
    if (index < COUNT) __atomic_store_n(&trampoline_table[index], found, __ATOMIC_RELEASE);
    return found;
}
