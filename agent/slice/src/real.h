/* The real library behind this shim, by its absolute hidden path. */
#ifndef TESSERA_SLICE_REAL_H
#define TESSERA_SLICE_REAL_H

typedef void (*any_function)(void);

/* What the real library has under this name, or NULL. */
any_function real_symbol(const char *name);
/* For the trampolines: the target of the numbered name, remembered in the table; never NULL. */
any_function trampoline_resolve(unsigned long index);

#endif
