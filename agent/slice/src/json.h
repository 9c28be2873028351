/* Just enough JSON to read what a container runtime tells a hook. Positions in a text that ends with NUL. */
#ifndef TESSERA_SLICE_JSON_H
#define TESSERA_SLICE_JSON_H

const char *json_member(const char *object, const char *name); /* its value; NULL where it is no object or has none */
const char *json_item(const char *array, int place);           /* NULL behind the last one */
char *json_text(const char *string);                           /* a copy, to be freed; NULL where it is no string */

#endif
