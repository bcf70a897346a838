/*
 * muretai_plugin.h: what a native muretai plugin exports. Interface version 1. C99 and C++.
 *
 * A plugin is a shared library with one exported function, muretai_plugin_entry. It offers skills (it answers
 * messages), a trust policy (it decides about senders), or both. Requests and answers are JSON documents in UTF-8;
 * what is in them is described in plugins/README.md.
 *
 * Where it runs. In a process of its own, which muretai starts, limits and ends. Standard input and output are
 * /dev/null; the environment is empty; the working folder is `/`. Memory is limited, and every call has a time limit
 * after which the process is killed. It may be killed at any time: keep nothing in memory that must not be lost.
 * Several such processes may run at the same time.
 *
 * Threads. All functions are called by one thread, one after the other, never while another call runs. A plugin may
 * have threads of its own; they must not call the host, and there is nothing to call.
 *
 * Failing. No C++ exception, no Rust panic and no longjmp may leave these functions: catch it, and return
 * MURETAI_ERR_PANIC with a text. Whatever leaves all the same ends the process, and the call fails. Calling exit() or
 * abort() has the same effect. A failing policy refuses the sender; a failing skill answers that it failed.
 *
 * Memory. Each buffer belongs to one side:
 *   - What the host passes in (config, request) belongs to the host and is valid until the function returns. It is not
 *     NUL-terminated, and must not be changed.
 *   - What the plugin hands out (muretai_buffer) belongs to the plugin. The host zeroes the struct before the call,
 *     reads `len` bytes at `data` after it, and then gives it back with one call of `release`, whatever the code was,
 *     unless `data` is NULL. The host never frees `data`, and does not look at it after `release`.
 *   - The table belongs to the plugin and must stay valid and unchanged for as long as the process lives.
 */
#ifndef MURETAI_PLUGIN_H
#define MURETAI_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header's interface. */
#define MURETAI_PLUGIN_ABI 1u

/* Largest request and largest answer in bytes. */
#define MURETAI_MAX_DOCUMENT 1048576u

/* Codes that functions return. Any other value counts as MURETAI_ERR_FAILED. */
#define MURETAI_OK 0         /* the buffer holds the answer */
#define MURETAI_ERR_FAILED 1 /* the buffer may hold one line of text for the owner's log, never shown to a peer */
#define MURETAI_ERR_CONFIG 2 /* open: the owner's config is not what the plugin needs; the text says what is wrong */
#define MURETAI_ERR_PANIC 3  /* a panic or exception was caught; the instance is closed and opened anew */

/* Bytes that the plugin hands to the host. `owner` is the plugin's own: the host passes it back unchanged. */
typedef struct muretai_buffer {
    uint8_t *data;
    size_t len;
    void *owner;
} muretai_buffer;

/* All that a plugin does. Every function is required, none may be NULL. */
typedef struct muretai_plugin {
    /* MURETAI_PLUGIN_ABI. Read before anything else; with another value nothing below is looked at. */
    uint32_t abi;
    /* sizeof(muretai_plugin), so that a later version can add members at the end. */
    uint32_t size;
    /*
     * Says what the plugin is and offers, as JSON. Needs no instance and may be called before `open`.
     */
    int32_t (*describe)(muretai_buffer *answer);
    /*
     * Makes an instance. `config` is the owner's configuration, a JSON object. On MURETAI_OK `*instance` is what later
     * calls get (NULL is fine) and `error` is ignored; otherwise there is no instance and `error` may say why.
     */
    int32_t (*open)(const uint8_t *config, size_t config_len, void **instance, muretai_buffer *error);
    /*
     * Answers one request. On MURETAI_OK `answer` is JSON, otherwise one line of text.
     */
    int32_t (*call)(void *instance, const uint8_t *request, size_t request_len, muretai_buffer *answer);
    /*
     * Takes back a buffer that describe, open or call filled.
     */
    void (*release)(muretai_buffer *buffer);
    /*
     * Ends an instance. The library itself is never unloaded; the process ends without running its destructors.
     */
    void (*close)(void *instance);
} muretai_plugin;

#if defined(_WIN32)
#define MURETAI_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define MURETAI_EXPORT __attribute__((visibility("default")))
#else
#define MURETAI_EXPORT
#endif

/*
 * The one exported symbol. The host speaks versions abi_min to abi_max. Return the table of the highest of these that
 * the plugin speaks. When there is none, return any table of the plugin: the host reads only `abi` from it, to tell the
 * owner which version it found; or NULL. May be called once per process. Must not allocate what it cannot lose.
 */
MURETAI_EXPORT const muretai_plugin *muretai_plugin_entry(uint32_t abi_min, uint32_t abi_max);

#ifdef __cplusplus
}
#endif

#endif
