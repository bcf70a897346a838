/*
 * muretai_wasm.h: what a muretai plugin in WebAssembly written in C exports. Interface version 1. C99, freestanding.
 * Include it once, in the file that defines these three functions:
 *
 *     muretai_document describe(void);                                    its declaration
 *     muretai_document open_config(const uint8_t *config, size_t len);    the owner's configuration, a JSON object
 *     muretai_document call(const uint8_t *request, size_t len);          answers a request
 *
 * and build it with
 *
 *     clang --target=wasm32 -O2 -ffreestanding -nostdlib -Wl,--no-entry -o plugin.wasm plugin.c
 *
 * Documents are JSON in UTF-8; what is in them is described in plugins/README.md, and muretai_json.h reads and writes
 * them. A document with a member `error` says that it failed, and why. `open_config` returns muretai_nothing() when the
 * configuration is good.
 *
 * The module gets no imports: no files, no network, no clock (a request says what time it is). Each call has an instance
 * of its own, whose `open_config` ran just before: nothing is remembered, and memory needs no freeing. A trap ends the
 * call and no more than that.
 */
#ifndef MURETAI_WASM_H
#define MURETAI_WASM_H

#include <stddef.h>
#include <stdint.h>

/* The version of this header's interface. */
#define MURETAI_PLUGIN_ABI 1

/* A document in the module's memory: its address in the upper half, its length in the lower. 0 is none. */
typedef uint64_t muretai_document;

muretai_document describe(void);
muretai_document open_config(const uint8_t *config, size_t len);
muretai_document call(const uint8_t *request, size_t len);

static inline muretai_document muretai_nothing(void) {
    return 0;
}

/* Bytes that stay where they are. */
static inline muretai_document muretai_answer(const void *at, size_t len) {
    return (uint64_t)(uintptr_t)at << 32 | (uint32_t)len;
}

/* JSON that stands in the program, and ends with NUL. */
static inline muretai_document muretai_say(const char *json) {
    size_t len = 0;
    while (json[len] != 0) len++;
    return muretai_answer(json, len);
}

extern unsigned char __heap_base;

/* Room for so many bytes, never given back; NULL when there is none. Not zeroed. */
static void *muretai_room(size_t len) {
    static uintptr_t next;
    uintptr_t have = __builtin_wasm_memory_size(0) * 65536u;
    uintptr_t at = ((next != 0 ? next : (uintptr_t)&__heap_base) + 15u) & ~(uintptr_t)15u;
    if (len > UINT32_MAX - 65536u - at) return NULL;
    if (at + len > have && __builtin_wasm_memory_grow(0, (at + len - have + 65535u) / 65536u) == (size_t)-1) return NULL;
    next = at + len;
    return (void *)at;
}

#define MURETAI_EXPORT_AS(name) __attribute__((export_name(#name), used))

MURETAI_EXPORT_AS(muretai_abi) int32_t muretai_export_abi(void) {
    return MURETAI_PLUGIN_ABI;
}
MURETAI_EXPORT_AS(muretai_alloc) void *muretai_export_alloc(size_t len) {
    return muretai_room(len != 0 ? len : 1);
}
MURETAI_EXPORT_AS(muretai_describe) muretai_document muretai_export_describe(void) {
    return describe();
}
MURETAI_EXPORT_AS(muretai_open) muretai_document muretai_export_open(const uint8_t *config, size_t len) {
    return open_config(config, len);
}
MURETAI_EXPORT_AS(muretai_call) muretai_document muretai_export_call(const uint8_t *request, size_t len) {
    return call(request, len);
}

/* Compilers put calls of these where none is written. The volatile keeps them from calling themselves. */
__attribute__((weak)) void *memcpy(void *to, const void *from, size_t len) {
    for (size_t i = 0; i < len; i++) ((volatile uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}
__attribute__((weak)) void *memset(void *at, int byte, size_t len) {
    for (size_t i = 0; i < len; i++) ((volatile uint8_t *)at)[i] = (uint8_t)byte;
    return at;
}

#endif
