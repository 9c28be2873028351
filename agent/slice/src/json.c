#include "json.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

static const char *after_space(const char *at) { return at + strspn(at, " \t\r\n"); }

/* Behind the string that begins here; NULL where there is none. */
static const char *after_string(const char *at) {
    if (*at++ != '"') return NULL;
    for (; *at != '"'; at++)
        if (*at == 0 || (*at == '\\' && *++at == 0)) return NULL;
    return at + 1;
}

static const char *after_value(const char *at, int depth);

/* Behind one member or item, and the comma or the closing bracket that follows; *last says which it was. */
static const char *after_part(const char *at, char close, int depth, bool *last) {
    at = after_space(at);
    if (close == '}') {
        if (!(at = after_string(at))) return NULL;
        at = after_space(at);
        if (*at++ != ':') return NULL;
    }
    if (!(at = after_value(at, depth + 1))) return NULL;
    at = after_space(at);
    *last = *at == close;
    return *at == close || *at == ',' ? at + 1 : NULL;
}

static const char *after_value(const char *at, int depth) {
    at = after_space(at);
    if (*at == '"') return after_string(at);
    if (*at != '{' && *at != '[') return at[strcspn(at, " \t\r\n,]}")] ? at + strcspn(at, " \t\r\n,]}") : NULL;
    char close = *at == '{' ? '}' : ']';
    bool last = false;
    if (depth == DEEPEST) return NULL;
    at = after_space(at + 1);
    if (*at == close) return at + 1;
    while (at && !last) at = after_part(at, close, depth, &last);
    return at;
}

const char *json_member(const char *object, const char *name) {
    const char *at = object ? after_space(object) : "", *end;
    bool last = false;
    if (*at != '{') return NULL;
    for (at++; at && !last; at = after_part(at, '}', 0, &last)) {
        at = after_space(at);
        if (*at == '}' || !(end = after_string(at))) return NULL;
        if ((size_t)(end - at) == strlen(name) + 2 && strncmp(at + 1, name, strlen(name)) == 0) {
            end = after_space(end);
            return *end == ':' ? after_space(end + 1) : NULL;
        }
    }
    return NULL;
}

const char *json_item(const char *array, int place) {
    const char *at = array ? after_space(array) : "";
    bool last = false;
    if (*at != '[') return NULL;
    for (at = after_space(at + 1); at && !last && *at != ']'; at = after_part(at, ']', 0, &last))
        if (place-- == 0) return after_space(at);
    return NULL;
}

static char *put_rune(char *to, unsigned long rune) { /* UTF-8; halves of pairs stay as they are: no name here has any */
    if (rune < 0x80) *to++ = (char)rune;
    else if (rune < 0x800) *to++ = (char)(0xc0 | rune >> 6), *to++ = (char)(0x80 | (rune & 0x3f));
    else *to++ = (char)(0xe0 | rune >> 12), *to++ = (char)(0x80 | (rune >> 6 & 0x3f)), *to++ = (char)(0x80 | (rune & 0x3f));
    return to;
}

char *json_text(const char *string) {
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *end = string ? after_string(string) : NULL;
    char *copy = end ? malloc((size_t)(end - string)) : NULL, *to = copy;
    if (!copy) return NULL;
    for (const char *at = string + 1; at < end - 1; at++) {
        const char *escape;
        if (*at != '\\') *to++ = *at;
        else if (*++at == 'u' && end - at > 5) {
            char digits[5] = {at[1], at[2], at[3], at[4], 0};
            to = put_rune(to, strtoul(digits, NULL, 16));
            at += 4;
        } else if ((escape = strchr(escapes, *at))) *to++ = meant[escape - escapes];
    }
    *to = 0;
    return copy;
}
