/*
 * muretai_wasm.h: what a muretai plugin in WebAssembly written in C needs. Interface version 1. C99, freestanding.
 *
 *   clang --target=wasm32 -O2 -ffreestanding -nostdlib -Wl,--no-entry -o plugin.wasm plugin.c
 *
 * A plugin defines three functions, and this header exports them under the names that the host calls:
 *
 *   mw_document describe(void);                  its declaration, as JSON
 *   mw_document open_config(mw_text config);     takes the owner's configuration, a JSON object
 *   mw_document call(mw_text request);           answers a request
 *
 * What is in the documents is described in plugins/README.md. The module gets no imports: no files, no network, no
 * clock (a request says what time it is). It has an instance of its own for each call, so memory is never freed and
 * nothing is remembered. A trap ends the call; the host goes on.
 */
#ifndef MURETAI_WASM_H
#define MURETAI_WASM_H

#include <stddef.h>
#include <stdint.h>

#define MURETAI_PLUGIN_ABI 1

#ifdef __wasm__
#define MW_EXPORT(name) __attribute__((export_name(#name)))
#else
#define MW_EXPORT(name)
#endif
/* Not every plugin uses everything. */
#define MW_UNUSED __attribute__((unused))

/* Bytes somewhere in memory; not NUL-terminated. As a JSON value: the spelling of the value. */
typedef struct mw_text {
    const char *at;
    uint32_t len;
} mw_text;

/* What a function answers: the address in the upper half, the length in the lower. 0 is nothing. */
typedef uint64_t mw_document;

mw_document describe(void);
mw_document open_config(mw_text config);
mw_document call(mw_text request);

/* ---- memory ---- */

#ifdef __wasm__
extern unsigned char __heap_base;
static uint32_t mw_next;

/* Room for `len` bytes that is never given back; 0 when there is none. */
MW_UNUSED static void *mw_alloc(uint32_t len) {
    if (mw_next == 0) mw_next = (uint32_t)&__heap_base;
    uint32_t at = (mw_next + 7u) & ~7u;
    if (len > UINT32_MAX - 65536u - at) return 0;
    uint32_t end = at + len;
    uint32_t have = (uint32_t)__builtin_wasm_memory_size(0) * 65536u;
    if (end > have && __builtin_wasm_memory_grow(0, (end - have + 65535u) / 65536u) == (uint32_t)-1) return 0;
    mw_next = end;
    return (void *)at;
}

MW_EXPORT(muretai_abi) int32_t muretai_abi(void) { return MURETAI_PLUGIN_ABI; }
MW_EXPORT(muretai_alloc) void *muretai_alloc(uint32_t len) { return mw_alloc(len ? len : 1); }
MW_EXPORT(muretai_describe) mw_document muretai_describe(void) { return describe(); }
MW_EXPORT(muretai_open) mw_document muretai_open(const char *at, uint32_t len) {
    return open_config((mw_text){at, len});
}
MW_EXPORT(muretai_call) mw_document muretai_call(const char *at, uint32_t len) { return call((mw_text){at, len}); }

/* Compilers put calls of these two where none is written. */
__attribute__((weak)) void *memcpy(void *to, const void *from, size_t len) {
    for (size_t i = 0; i < len; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}
__attribute__((weak)) void *memset(void *at, int byte, size_t len) {
    for (size_t i = 0; i < len; i++) ((volatile char *)at)[i] = (char)byte;
    return at;
}
#endif

/* ---- text ---- */

MW_UNUSED static uint32_t mw_length(const char *text) {
    uint32_t len = 0;
    while (text[len]) len++;
    return len;
}

/* Whether a text, or the spelling of a value, is exactly this. */
MW_UNUSED static int mw_is(mw_text text, const char *expected) {
    uint32_t i = 0;
    for (; i < text.len && expected[i]; i++)
        if (text.at[i] != expected[i]) return 0;
    return i == text.len && expected[i] == 0;
}

MW_UNUSED static mw_document mw_answer(mw_text text) {
    return ((uint64_t)(uintptr_t)text.at << 32) | text.len;
}

/* An answer that stands in the program as it is. */
MW_UNUSED static mw_document mw_say(const char *json) { return mw_answer((mw_text){json, mw_length(json)}); }

/* ---- JSON: a reader for what the host writes. Every function copes with what is no JSON. ---- */

MW_UNUSED static uint32_t mw_blank(mw_text in, uint32_t i) {
    while (i < in.len && (in.at[i] == ' ' || in.at[i] == '\n' || in.at[i] == '\t' || in.at[i] == '\r')) i++;
    return i;
}

/* Where the string that begins at `i` ends. */
MW_UNUSED static uint32_t mw_string_end(mw_text in, uint32_t i) {
    for (i++; i < in.len && in.at[i] != '"'; i++)
        if (in.at[i] == '\\') i++;
    return i < in.len ? i + 1 : in.len;
}

/* Where the value that begins at `i` ends. */
MW_UNUSED static uint32_t mw_value_end(mw_text in, uint32_t i) {
    uint32_t depth = 0;
    while (i < in.len) {
        char c = in.at[i];
        if (c == '"') {
            i = mw_string_end(in, i);
        } else if (c == '{' || c == '[') {
            depth++, i++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) return i;
            depth--, i++;
        } else if (depth == 0 && (c == ',' || c == ' ' || c == '\n' || c == '\t' || c == '\r')) {
            return i;
        } else {
            i++;
            continue;
        }
        if (depth == 0) return i;
    }
    return in.len;
}

/* The member of an object; 0 when it is absent or null. A name with escapes is never found. */
MW_UNUSED static int mw_member(mw_text object, const char *name, mw_text *value) {
    uint32_t i = mw_blank(object, 0);
    if (i >= object.len || object.at[i] != '{') return 0;
    i++;
    while ((i = mw_blank(object, i)) < object.len && object.at[i] == '"') {
        uint32_t end = mw_string_end(object, i);
        mw_text key = {object.at + i + 1, end - i < 2 ? 0 : end - i - 2};
        i = mw_blank(object, end);
        if (i >= object.len || object.at[i] != ':') return 0;
        i = mw_blank(object, i + 1);
        end = mw_value_end(object, i);
        *value = (mw_text){object.at + i, end - i};
        if (mw_is(key, name)) return value->len > 0 && !mw_is(*value, "null");
        i = mw_blank(object, end);
        if (i < object.len && object.at[i] == ',') i++;
    }
    return 0;
}

/* The next item of an array; `*i` is 0 at first. 0 when there is none. */
MW_UNUSED static int mw_item(mw_text array, uint32_t *i, mw_text *value) {
    uint32_t at = mw_blank(array, *i);
    if (at >= array.len || (*i == 0 ? array.at[at] != '[' : array.at[at] != ',')) return 0;
    at = mw_blank(array, at + 1);
    uint32_t end = mw_value_end(array, at);
    if (end == at) return 0;
    *value = (mw_text){array.at + at, end - at};
    *i = end;
    return 1;
}

/* What is between the quotes of a string, escapes as they are written; 0 when it is none. */
MW_UNUSED static int mw_string(mw_text value, mw_text *text) {
    if (value.len < 2 || value.at[0] != '"' || mw_string_end(value, 0) != value.len) return 0;
    *text = (mw_text){value.at + 1, value.len - 2};
    return 1;
}

/* Whether a value is exactly this string, which has no characters that JSON escapes. */
MW_UNUSED static int mw_string_is(mw_text value, const char *expected) {
    mw_text text;
    return mw_string(value, &text) && mw_is(text, expected);
}

/* An integer of at most 15 digits; 0 when it is none. */
MW_UNUSED static int mw_integer(mw_text value, int64_t *number) {
    uint32_t i = value.len > 0 && value.at[0] == '-';
    int64_t sum = 0;
    if (i == value.len || value.len > 16) return 0;
    for (uint32_t j = i; j < value.len; j++) {
        if (value.at[j] < '0' || value.at[j] > '9') return 0;
        sum = sum * 10 + (value.at[j] - '0');
    }
    *number = i ? -sum : sum;
    return 1;
}

/* ---- JSON: writing ---- */

/* An answer in the making; what does not fit is left out and `is_full` is set. */
typedef struct mw_out {
    char *at;
    uint32_t len, room;
    int is_full;
} mw_out;

MW_UNUSED static void mw_put(mw_out *out, mw_text text) {
    if (text.len > out->room - out->len) {
        out->is_full = 1;
        return;
    }
    for (uint32_t i = 0; i < text.len; i++) out->at[out->len++] = text.at[i];
}

MW_UNUSED static void mw_puts(mw_out *out, const char *text) { mw_put(out, (mw_text){text, mw_length(text)}); }

MW_UNUSED static void mw_put_integer(mw_out *out, int64_t number) {
    char digits[20];
    uint32_t n = 20;
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    do digits[--n] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) mw_puts(out, "-");
    mw_put(out, (mw_text){digits + n, 20 - n});
}

#endif
