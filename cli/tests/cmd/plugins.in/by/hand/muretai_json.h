/*
 * muretai_json.h: enough JSON for a plugin in C. Header only; no allocation, no library function, no recursion, so
 * that it also serves WebAssembly without a C library. C99 and C++.
 *
 * Reading. muretai_json_parse checks a whole document (RFC 8259, valid UTF-8, at most 64 levels) and gives its value.
 * A value is two pointers into the document, which must live as long. Nothing is read outside of the document,
 * whatever is in it. A value that is not there has type MURETAI_JSON_ABSENT, and all functions take it, so that calls
 * can be nested:
 *
 *     muretai_json doc;
 *     if (!muretai_json_parse(&doc, request, request_len)) ...
 *     muretai_json issuer = muretai_json_get(muretai_json_get(doc, "introduction"), "issuer");
 *     if (muretai_json_equals(issuer, "did:key:z6Mk...")) ...
 *
 * Writing. A writer fills a buffer of yours and puts commas where they belong; what does not fit makes it fail as a
 * whole:
 *
 *     muretai_json_writer w = muretai_json_write(buffer, sizeof buffer);
 *     muretai_json_put_object(&w);
 *     muretai_json_put_key(&w, "decision");
 *     muretai_json_put_string(&w, "pass");
 *     muretai_json_put_end_object(&w);
 *     size_t len = muretai_json_written(&w);   (0 when it did not fit)
 */
#ifndef MURETAI_JSON_H
#define MURETAI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deepest nesting that is read. */
#define MURETAI_JSON_MAX_DEPTH 64

typedef enum muretai_json_type {
    MURETAI_JSON_ABSENT,
    MURETAI_JSON_NULL,
    MURETAI_JSON_BOOL,
    MURETAI_JSON_NUMBER,
    MURETAI_JSON_STRING,
    MURETAI_JSON_ARRAY,
    MURETAI_JSON_OBJECT
} muretai_json_type;

/* One value, without the white space around it. */
typedef struct muretai_json {
    const uint8_t *at;
    const uint8_t *end;
} muretai_json;

/* What is left of an array or object. */
typedef struct muretai_json_items {
    const uint8_t *at;
    const uint8_t *end;
    bool is_object;
    bool is_first;
} muretai_json_items;

/* ---- inner: each takes a position and an end, and returns the position behind, or NULL for malformed ---- */

static inline const uint8_t *muretai_json_space(const uint8_t *p, const uint8_t *end) {
    while (p != end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r')) p++;
    return p;
}

static inline const uint8_t *muretai_json_hex4(const uint8_t *p, const uint8_t *end, uint32_t *out) {
    uint32_t value = 0;
    int i;
    for (i = 0; i < 4; i++, p++) {
        uint32_t digit;
        if (p == end) return NULL;
        if (*p >= '0' && *p <= '9') digit = (uint32_t)(*p - '0');
        else if (*p >= 'a' && *p <= 'f') digit = (uint32_t)(*p - 'a') + 10;
        else if (*p >= 'A' && *p <= 'F') digit = (uint32_t)(*p - 'A') + 10;
        else return NULL;
        value = value * 16 + digit;
    }
    *out = value;
    return p;
}

/* The escape behind a backslash. Halves of a surrogate pair must come as a pair. */
static inline const uint8_t *muretai_json_escape(const uint8_t *p, const uint8_t *end, uint32_t *out) {
    uint32_t low;
    if (p == end) return NULL;
    switch (*p++) {
    case '"': *out = '"'; return p;
    case '\\': *out = '\\'; return p;
    case '/': *out = '/'; return p;
    case 'b': *out = 8; return p;
    case 'f': *out = 12; return p;
    case 'n': *out = 10; return p;
    case 'r': *out = 13; return p;
    case 't': *out = 9; return p;
    case 'u': break;
    default: return NULL;
    }
    p = muretai_json_hex4(p, end, out);
    if (p == NULL || *out < 0xd800 || *out > 0xdfff) return p;
    if (*out > 0xdbff || end - p < 2 || p[0] != '\\' || p[1] != 'u') return NULL;
    p = muretai_json_hex4(p + 2, end, &low);
    if (p == NULL || low < 0xdc00 || low > 0xdfff) return NULL;
    *out = 0x10000 + ((*out - 0xd800) << 10) + (low - 0xdc00);
    return p;
}

/* One character of UTF-8: no overlong form, no surrogate, nothing beyond U+10FFFF. */
static inline const uint8_t *muretai_json_utf8(const uint8_t *p, const uint8_t *end, uint32_t *out) {
    uint32_t c, least;
    int more;
    if (p == end) return NULL;
    c = *p++;
    if (c < 0x80) {
        *out = c;
        return p;
    }
    if (c >= 0xc2 && c <= 0xdf) {
        more = 1, least = 0x80, c &= 0x1f;
    } else if (c >= 0xe0 && c <= 0xef) {
        more = 2, least = 0x800, c &= 0x0f;
    } else if (c >= 0xf0 && c <= 0xf4) {
        more = 3, least = 0x10000, c &= 0x07;
    } else {
        return NULL;
    }
    while (more-- > 0) {
        if (p == end || (*p & 0xc0) != 0x80) return NULL;
        c = (c << 6) | (uint32_t)(*p++ & 0x3f);
    }
    if (c < least || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return NULL;
    *out = c;
    return p;
}

/* One character inside a string, escaped or not. The closing quote is not one. */
static inline const uint8_t *muretai_json_char(const uint8_t *p, const uint8_t *end, uint32_t *out) {
    if (p == end || *p < 0x20 || *p == '"') return NULL;
    if (*p == '\\') return muretai_json_escape(p + 1, end, out);
    return muretai_json_utf8(p, end, out);
}

static inline const uint8_t *muretai_json_skip_string(const uint8_t *p, const uint8_t *end) {
    uint32_t c;
    if (p == end || *p != '"') return NULL;
    p++;
    while (p != end && *p != '"') {
        p = muretai_json_char(p, end, &c);
        if (p == NULL) return NULL;
    }
    return p == end ? NULL : p + 1;
}

static inline const uint8_t *muretai_json_skip_key(const uint8_t *p, const uint8_t *end) {
    p = muretai_json_skip_string(p, end);
    if (p == NULL) return NULL;
    p = muretai_json_space(p, end);
    return p == end || *p != ':' ? NULL : p + 1;
}

static inline const uint8_t *muretai_json_skip_digits(const uint8_t *p, const uint8_t *end) {
    if (p == end || *p < '0' || *p > '9') return NULL;
    while (p != end && *p >= '0' && *p <= '9') p++;
    return p;
}

static inline const uint8_t *muretai_json_skip_number(const uint8_t *p, const uint8_t *end) {
    if (p != end && *p == '-') p++;
    if (p != end && *p == '0') p++;
    else p = muretai_json_skip_digits(p, end);
    if (p == NULL) return NULL;
    if (p != end && *p == '.') {
        p = muretai_json_skip_digits(p + 1, end);
        if (p == NULL) return NULL;
    }
    if (p != end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p != end && (*p == '+' || *p == '-')) p++;
        p = muretai_json_skip_digits(p, end);
    }
    return p;
}

static inline const uint8_t *muretai_json_skip_word(const uint8_t *p, const uint8_t *end, const char *word) {
    for (; *word != 0; word++, p++)
        if (p == end || *p != (uint8_t)*word) return NULL;
    return p;
}

static inline const uint8_t *muretai_json_skip_scalar(const uint8_t *p, const uint8_t *end) {
    if (p == end) return NULL;
    switch (*p) {
    case '"': return muretai_json_skip_string(p, end);
    case 't': return muretai_json_skip_word(p, end, "true");
    case 'f': return muretai_json_skip_word(p, end, "false");
    case 'n': return muretai_json_skip_word(p, end, "null");
    default: return muretai_json_skip_number(p, end);
    }
}

/* One value of any kind, without white space before it. */
static inline const uint8_t *muretai_json_skip(const uint8_t *p, const uint8_t *end) {
    uint64_t objects = 0; /* one bit for each open container: it is an object */
    unsigned depth = 0;
    for (;;) {
        bool is_object;
        if (p == end) return NULL;
        if (*p == '{' || *p == '[') {
            if (depth == MURETAI_JSON_MAX_DEPTH) return NULL;
            is_object = *p == '{';
            objects = (objects << 1) | (is_object ? 1u : 0u);
            depth++;
            p = muretai_json_space(p + 1, end);
            if (p == end) return NULL;
            if (*p != (is_object ? '}' : ']')) {
                if (is_object) {
                    p = muretai_json_skip_key(p, end);
                    if (p == NULL) return NULL;
                }
                p = muretai_json_space(p, end);
                continue;
            }
        } else {
            p = muretai_json_skip_scalar(p, end);
            if (p == NULL || depth == 0) return p;
            p = muretai_json_space(p, end);
        }
        /* Behind a value, or before the end of an empty container. */
        while (p != end && *p == ((objects & 1) ? '}' : ']')) {
            p++;
            objects >>= 1;
            if (--depth == 0) return p;
            p = muretai_json_space(p, end);
        }
        if (p == end || *p != ',') return NULL;
        p = muretai_json_space(p + 1, end);
        if (objects & 1) {
            p = muretai_json_skip_key(p, end);
            if (p == NULL) return NULL;
            p = muretai_json_space(p, end);
        }
    }
}

static inline muretai_json muretai_json_absent(void) {
    muretai_json absent;
    absent.at = NULL;
    absent.end = NULL;
    return absent;
}

/* ---- reading ---- */

/* Checks a document and gives its value. False when it is malformed; the value is then absent. */
static inline bool muretai_json_parse(muretai_json *doc, const uint8_t *bytes, size_t len) {
    const uint8_t *end, *begin, *behind;
    *doc = muretai_json_absent();
    if (bytes == NULL || len == 0) return false;
    end = bytes + len;
    begin = muretai_json_space(bytes, end);
    behind = muretai_json_skip(begin, end);
    if (behind == NULL || muretai_json_space(behind, end) != end) return false;
    doc->at = begin;
    doc->end = behind;
    return true;
}

static inline muretai_json_type muretai_json_typeof(muretai_json value) {
    if (value.at == value.end) return MURETAI_JSON_ABSENT;
    switch (*value.at) {
    case '{': return MURETAI_JSON_OBJECT;
    case '[': return MURETAI_JSON_ARRAY;
    case '"': return MURETAI_JSON_STRING;
    case 't':
    case 'f': return MURETAI_JSON_BOOL;
    case 'n': return MURETAI_JSON_NULL;
    default: return MURETAI_JSON_NUMBER;
    }
}

/* Goes through an array or object. Of anything else there are no items. */
static inline muretai_json_items muretai_json_iterate(muretai_json value) {
    muretai_json_type type = muretai_json_typeof(value);
    muretai_json_items items;
    items.is_object = type == MURETAI_JSON_OBJECT;
    items.is_first = true;
    items.at = value.end;
    items.end = value.end;
    if (type == MURETAI_JSON_OBJECT || type == MURETAI_JSON_ARRAY) items.at = value.at + 1;
    return items;
}

/* The next item. `key` may be NULL; of an array's items it is absent. False when there are no more. */
static inline bool muretai_json_next(muretai_json_items *items, muretai_json *key, muretai_json *value) {
    const uint8_t *p = muretai_json_space(items->at, items->end);
    muretai_json name = muretai_json_absent();
    items->at = items->end;
    if (p == items->end) return false;
    if (!items->is_first) {
        if (*p != ',') return false;
        p = muretai_json_space(p + 1, items->end);
    }
    items->is_first = false;
    if (items->is_object) {
        name.at = p;
        name.end = muretai_json_skip_string(p, items->end);
        p = muretai_json_skip_key(p, items->end);
        if (p == NULL) return false;
        p = muretai_json_space(p, items->end);
    }
    value->at = p;
    value->end = muretai_json_skip(p, items->end);
    if (value->end == NULL) {
        *value = muretai_json_absent();
        return false;
    }
    items->at = value->end;
    if (key != NULL) *key = name;
    return true;
}

/* The string is exactly this text, which ends with NUL and is UTF-8. */
static inline bool muretai_json_equals(muretai_json value, const char *text) {
    const uint8_t *p = value.at;
    uint32_t c, given;
    if (muretai_json_typeof(value) != MURETAI_JSON_STRING) return false;
    for (p++; p != value.end && *p != '"';) {
        size_t len = 0;
        p = muretai_json_char(p, value.end, &c);
        if (p == NULL || c == 0) return false;
        while (len < 4 && text[len] != 0) len++;
        {
            const uint8_t *begin = (const uint8_t *)text;
            const uint8_t *behind = muretai_json_utf8(begin, begin + len, &given);
            if (behind == NULL || given != c) return false;
            text += behind - begin;
        }
    }
    return *text == 0;
}

/* Two strings are the same text, however they are escaped. */
static inline bool muretai_json_same(muretai_json a, muretai_json b) {
    const uint8_t *p = a.at, *q = b.at;
    if (muretai_json_typeof(a) != MURETAI_JSON_STRING || muretai_json_typeof(b) != MURETAI_JSON_STRING) return false;
    for (p++, q++; p != a.end && q != b.end && *p != '"' && *q != '"';) {
        uint32_t c = 0, d = 0;
        p = muretai_json_char(p, a.end, &c);
        q = muretai_json_char(q, b.end, &d);
        if (p == NULL || q == NULL || c != d) return false;
    }
    return p != a.end && q != b.end && *p == '"' && *q == '"';
}

/* The member of this name; of several the last. Absent when there is none, or when the value is no object. */
static inline muretai_json muretai_json_get(muretai_json object, const char *name) {
    muretai_json found = muretai_json_absent(), key, value;
    muretai_json_items items = muretai_json_iterate(object);
    if (!items.is_object) return found;
    while (muretai_json_next(&items, &key, &value))
        if (muretai_json_equals(key, name)) found = value;
    return found;
}

/* Bytes of a character in UTF-8, at most 4. */
static inline size_t muretai_json_encode(uint32_t c, uint8_t out[4]) {
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xc0 | (c >> 6));
        out[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xe0 | (c >> 12));
        out[1] = (uint8_t)(0x80 | ((c >> 6) & 0x3f));
        out[2] = (uint8_t)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | (c >> 18));
    out[1] = (uint8_t)(0x80 | ((c >> 12) & 0x3f));
    out[2] = (uint8_t)(0x80 | ((c >> 6) & 0x3f));
    out[3] = (uint8_t)(0x80 | (c & 0x3f));
    return 4;
}

/*
 * Copies the text of a string into `out`, with a NUL behind it; `len`, which may be NULL, does not count that. False
 * when it is no string, does not fit, or has a NUL inside; `out` then is empty (when there is room for that).
 */
static inline bool muretai_json_string(muretai_json value, char *out, size_t room, size_t *len) {
    const uint8_t *p = value.at;
    size_t filled = 0;
    if (room > 0) out[0] = 0;
    if (len != NULL) *len = 0;
    if (room == 0 || muretai_json_typeof(value) != MURETAI_JSON_STRING) return false;
    for (p++; p != value.end && *p != '"';) {
        uint8_t bytes[4];
        uint32_t c;
        size_t n, i;
        p = muretai_json_char(p, value.end, &c);
        n = p == NULL || c == 0 ? room : muretai_json_encode(c, bytes);
        if (n >= room - filled) {
            out[0] = 0;
            return false;
        }
        for (i = 0; i < n; i++) out[filled++] = (char)bytes[i];
    }
    out[filled] = 0;
    if (len != NULL) *len = filled;
    return true;
}

/* A whole number without fraction and exponent, that fits. */
static inline bool muretai_json_int(muretai_json value, int64_t *out) {
    const uint8_t *p = value.at;
    bool is_negative;
    uint64_t sum = 0, most = INT64_MAX;
    if (muretai_json_typeof(value) != MURETAI_JSON_NUMBER) return false;
    is_negative = *p == '-';
    if (is_negative) p++, most++;
    if (p == value.end) return false;
    for (; p != value.end; p++) {
        uint64_t digit;
        if (*p < '0' || *p > '9') return false;
        digit = (uint64_t)(*p - '0');
        if (sum > (most - digit) / 10) return false;
        sum = sum * 10 + digit;
    }
    if (!is_negative) *out = (int64_t)sum;
    else *out = sum == 0 ? 0 : -(int64_t)(sum - 1) - 1;
    return true;
}

static inline bool muretai_json_bool(muretai_json value, bool *out) {
    if (muretai_json_typeof(value) != MURETAI_JSON_BOOL) return false;
    *out = *value.at == 't';
    return true;
}

/* It is null, or not there at all. */
static inline bool muretai_json_is_null(muretai_json value) {
    return muretai_json_typeof(value) <= MURETAI_JSON_NULL;
}

/* ---- writing ---- */

typedef struct muretai_json_writer {
    uint8_t *at;
    size_t room;
    size_t len;
    bool fits;
    bool is_comma_due;
} muretai_json_writer;

/* A writer that fills `buffer`. */
static inline muretai_json_writer muretai_json_write(void *buffer, size_t room) {
    muretai_json_writer w;
    w.at = (uint8_t *)buffer;
    w.room = room;
    w.len = 0;
    w.fits = true;
    w.is_comma_due = false;
    return w;
}

/* Bytes written; 0 when not all of it fitted. */
static inline size_t muretai_json_written(const muretai_json_writer *w) {
    return w->fits ? w->len : 0;
}

static inline void muretai_json_put_byte(muretai_json_writer *w, uint8_t byte) {
    if (w->len == w->room) w->fits = false;
    if (w->fits) w->at[w->len++] = byte;
}

/* Before each value, and before each key. */
static inline void muretai_json_put_comma(muretai_json_writer *w, bool is_due_again) {
    if (w->is_comma_due) muretai_json_put_byte(w, ',');
    w->is_comma_due = is_due_again;
}

static inline void muretai_json_put_word(muretai_json_writer *w, const char *word) {
    muretai_json_put_comma(w, true);
    for (; *word != 0; word++) muretai_json_put_byte(w, (uint8_t)*word);
}

static inline void muretai_json_put_null(muretai_json_writer *w) {
    muretai_json_put_word(w, "null");
}

static inline void muretai_json_put_bool(muretai_json_writer *w, bool value) {
    muretai_json_put_word(w, value ? "true" : "false");
}

static inline void muretai_json_put_int(muretai_json_writer *w, int64_t value) {
    uint8_t digits[20];
    size_t n = 0;
    uint64_t left = value < 0 ? (uint64_t) - (value + 1) + 1 : (uint64_t)value;
    muretai_json_put_comma(w, true);
    if (value < 0) muretai_json_put_byte(w, '-');
    do {
        digits[n++] = (uint8_t)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    while (n > 0) muretai_json_put_byte(w, digits[--n]);
}

/* A text of this many bytes, escaped. What is no UTF-8 becomes U+FFFD. */
static inline void muretai_json_put_text(muretai_json_writer *w, const char *text, size_t len) {
    static const char hex[] = "0123456789abcdef";
    const uint8_t *p = (const uint8_t *)text, *end = p + len;
    muretai_json_put_comma(w, true);
    muretai_json_put_byte(w, '"');
    while (p != end) {
        uint32_t c = 0;
        uint8_t bytes[4];
        size_t n, i;
        const uint8_t *behind = muretai_json_utf8(p, end, &c);
        if (behind == NULL) behind = p + 1, c = 0xfffd;
        p = behind;
        if (c == '"' || c == '\\') {
            muretai_json_put_byte(w, '\\');
        } else if (c < 0x20) {
            muretai_json_put_byte(w, '\\');
            muretai_json_put_byte(w, 'u');
            muretai_json_put_byte(w, '0');
            muretai_json_put_byte(w, '0');
            muretai_json_put_byte(w, (uint8_t)hex[c >> 4]);
            c = (uint8_t)hex[c & 15];
        }
        n = muretai_json_encode(c, bytes);
        for (i = 0; i < n; i++) muretai_json_put_byte(w, bytes[i]);
    }
    muretai_json_put_byte(w, '"');
}

/* The same of a text that ends with NUL. */
static inline void muretai_json_put_string(muretai_json_writer *w, const char *text) {
    size_t len = 0;
    while (text[len] != 0) len++;
    muretai_json_put_text(w, text, len);
}

/* A value that was read, as it stands. What is absent becomes null. */
static inline void muretai_json_put_value(muretai_json_writer *w, muretai_json value) {
    if (muretai_json_typeof(value) == MURETAI_JSON_ABSENT) {
        muretai_json_put_null(w);
        return;
    }
    muretai_json_put_comma(w, true);
    for (; value.at != value.end; value.at++) muretai_json_put_byte(w, *value.at);
}

/* The name of the member whose value comes next. */
static inline void muretai_json_put_key(muretai_json_writer *w, const char *name) {
    muretai_json_put_string(w, name);
    muretai_json_put_byte(w, ':');
    w->is_comma_due = false;
}

static inline void muretai_json_put_object(muretai_json_writer *w) {
    muretai_json_put_comma(w, false);
    muretai_json_put_byte(w, '{');
}

static inline void muretai_json_put_end_object(muretai_json_writer *w) {
    muretai_json_put_byte(w, '}');
    w->is_comma_due = true;
}

static inline void muretai_json_put_array(muretai_json_writer *w) {
    muretai_json_put_comma(w, false);
    muretai_json_put_byte(w, '[');
}

static inline void muretai_json_put_end_array(muretai_json_writer *w) {
    muretai_json_put_byte(w, ']');
    w->is_comma_due = true;
}

#endif
