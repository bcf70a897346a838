/*
 * {{name}}: a skill for muretai in C. It counts the words of a message: `{{name}} one two` is answered with `2 words`.
 * What each function must do is said in muretai_plugin.h.
 */
#include <stdlib.h>
#include <string.h>

#include "muretai_json.h"
#include "muretai_plugin.h"

#define MAX_TEXT 65536

typedef struct plugin {
    char text[MAX_TEXT + 1];
    uint8_t answer[256];
} plugin;

static const char DESCRIPTION[] =
    "{\"name\":\"{{name}}\",\"version\":\"0.1.0\",\"description\":\"Counts words\",\"policy\":false,"
    "\"skills\":[{\"id\":\"{{name}}\",\"name\":\"{{name}}\",\"description\":\"Counts the words of a text\","
    "\"tags\":[\"text\"],\"examples\":[\"one two three\"]}]}";

/* What is handed out here lives as long as the plugin, so nothing is to be released. The host only reads it. */
static int32_t say(muretai_buffer *out, int32_t code, const void *bytes, size_t len) {
    out->data = (uint8_t *)(uintptr_t)bytes;
    out->len = len;
    return code;
}

static int32_t fail(muretai_buffer *out, int32_t code, const char *text) {
    return say(out, code, text, strlen(text));
}

static int32_t describe(muretai_buffer *answer) {
    return say(answer, MURETAI_OK, DESCRIPTION, sizeof DESCRIPTION - 1);
}

static int32_t open_plugin(const uint8_t *config, size_t len, void **instance, muretai_buffer *error) {
    muretai_json doc;
    muretai_json_items items;
    muretai_json value;
    if (!muretai_json_parse(&doc, config, len)) return fail(error, MURETAI_ERR_CONFIG, "the config is no JSON");
    items = muretai_json_iterate(doc);
    if (muretai_json_next(&items, NULL, &value)) return fail(error, MURETAI_ERR_CONFIG, "there is nothing to configure");
    *instance = calloc(1, sizeof(plugin));
    return *instance != NULL ? MURETAI_OK : fail(error, MURETAI_ERR_FAILED, "no memory");
}

static int64_t count_words(const char *text, size_t len) {
    int64_t words = 0;
    bool is_inside = false;
    size_t i;
    for (i = 0; i < len; i++) {
        bool is_blank = text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r';
        if (!is_blank && !is_inside) words++;
        is_inside = !is_blank;
    }
    return words;
}

static int32_t call(void *instance, const uint8_t *request, size_t request_len, muretai_buffer *answer) {
    plugin *self = (plugin *)instance;
    muretai_json_writer w = muretai_json_write(self->answer, sizeof self->answer);
    char said[32];
    muretai_json doc;
    size_t len;
    int64_t words;
    if (!muretai_json_parse(&doc, request, request_len)) return fail(answer, MURETAI_ERR_FAILED, "no JSON");
    if (!muretai_json_equals(muretai_json_get(doc, "skill"), "{{name}}"))
        return fail(answer, MURETAI_ERR_FAILED, "no such skill");
    if (!muretai_json_string(muretai_json_get(doc, "text"), self->text, sizeof self->text, &len))
        return fail(answer, MURETAI_ERR_FAILED, "no text");
    words = count_words(self->text, len);
    muretai_json_put_object(&w);
    if (words == 0) {
        /* The sender reads this. What a code other than MURETAI_OK says goes to the owner's log alone. */
        muretai_json_put_key(&w, "error");
        muretai_json_put_string(&w, "there are no words to count; write `{{name}} one two three`");
    } else {
        muretai_json_writer number = muretai_json_write(said, sizeof said - sizeof " words");
        muretai_json_put_int(&number, words);
        len = muretai_json_written(&number);
        memcpy(said + len, words == 1 ? " word" : " words", words == 1 ? 6 : 7);
        muretai_json_put_key(&w, "text");
        muretai_json_put_string(&w, said);
    }
    muretai_json_put_end_object(&w);
    return say(answer, MURETAI_OK, self->answer, muretai_json_written(&w));
}

static void release(muretai_buffer *buffer) {
    (void)buffer;
}

static void close_plugin(void *instance) {
    free(instance);
}

static const muretai_plugin TABLE = {
    MURETAI_PLUGIN_ABI, sizeof(muretai_plugin), describe, open_plugin, call, release, close_plugin,
};

const muretai_plugin *muretai_plugin_entry(uint32_t abi_min, uint32_t abi_max) {
    (void)abi_min;
    (void)abi_max;
    return &TABLE;
}
