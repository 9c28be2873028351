/* Every name of the driver that the double does not play answers "not supported", as a driver without the feature does. */
#define NAME(name) int name(void); __attribute__((weak)) int name(void) { return 801; }
#include NAMES
