/*
 * A trust policy for muretai: lets in whom the owner lists, by DID or by verified domain, and refuses everybody else
 * who is not a direct contact. Its config:
 *
 *     dids = ["did:key:z6Mk..."]
 *     domains = ["example.com"]
 *     refuse_code = -32010          # the default; -32011, -32013 to -32015 and -32020 are possible too
 *     detail = "ask me elsewhere"   # what a refused sender reads, at most 200 characters; optional
 */
#include <stdlib.h>
#include <string.h>

#include "muretai_json.h"
#include "muretai_plugin.h"

#define MAX_DETAIL_CHARS 200
#define MAX_DETAIL (4 * MAX_DETAIL_CHARS + 1)
#define DEFAULT_CODE (-32010)

typedef struct allowlist {
    uint8_t *config; /* a copy: the two lists point into it */
    muretai_json dids;
    muretai_json domains;
    int64_t refuse_code;
    char detail[MAX_DETAIL];
    uint8_t answer[2 * MAX_DETAIL + 128]; /* a detail of nothing but quotes fits */
} allowlist;

static const char DESCRIPTION[] =
    "{\"name\":\"allowlist\",\"version\":\"1.0.0\","
    "\"description\":\"Lets in listed DIDs and verified domains; refuses everybody else\","
    "\"skills\":[],\"policy\":true}";

/* The buffer of an answer that lives as long as the plugin: nothing is to be released. */
static int32_t say(muretai_buffer *out, int32_t code, const char *text) {
    union {
        const char *given;
        uint8_t *handed; /* the host only reads it */
    } bytes;
    bytes.given = text;
    out->data = bytes.handed;
    out->len = strlen(text);
    return code;
}

static int32_t describe(muretai_buffer *answer) {
    return say(answer, MURETAI_OK, DESCRIPTION);
}

static bool is_list_of_strings(muretai_json list) {
    muretai_json_items items = muretai_json_iterate(list);
    muretai_json item;
    if (muretai_json_is_null(list)) return true;
    if (muretai_json_typeof(list) != MURETAI_JSON_ARRAY) return false;
    while (muretai_json_next(&items, NULL, &item))
        if (muretai_json_typeof(item) != MURETAI_JSON_STRING) return false;
    return true;
}

/* The codes of the gate that a policy may choose. */
static bool is_refusal(int64_t code) {
    return code == -32010 || code == -32011 || (code <= -32013 && code >= -32015) || code == -32020;
}

/* One line that is not too long: anything else the host would refuse when it is too late. */
static bool is_detail(const char *text) {
    size_t chars = 0;
    for (; *text != 0; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) return false;
        if (((unsigned char)*text & 0xc0) != 0x80) chars++;
    }
    return chars > 0 && chars <= MAX_DETAIL_CHARS;
}

/* Reads the config into `list`. NULL, or what is wrong. A misspelt member would leave a list empty: it is refused. */
static const char *read_config(allowlist *list, const uint8_t *config, size_t len) {
    muretai_json doc, key, value;
    muretai_json_items items;
    if (!muretai_json_parse(&doc, config, len)) return "the config is no JSON";
    if (muretai_json_typeof(doc) != MURETAI_JSON_OBJECT) return "the config is no object";
    items = muretai_json_iterate(doc);
    while (muretai_json_next(&items, &key, &value)) {
        if (muretai_json_equals(key, "dids")) {
            if (!is_list_of_strings(value)) return "`dids` must be a list of texts";
            list->dids = value;
        } else if (muretai_json_equals(key, "domains")) {
            if (!is_list_of_strings(value)) return "`domains` must be a list of texts";
            list->domains = value;
        } else if (muretai_json_equals(key, "refuse_code")) {
            if (!muretai_json_int(value, &list->refuse_code) || !is_refusal(list->refuse_code))
                return "`refuse_code` must be -32010, -32011, -32013, -32014, -32015 or -32020";
        } else if (muretai_json_equals(key, "detail")) {
            if (!muretai_json_string(value, list->detail, sizeof list->detail, NULL) || !is_detail(list->detail))
                return "`detail` must be a line of 1 to 200 characters";
        } else {
            return "the config has a member other than `dids`, `domains`, `refuse_code` and `detail`";
        }
    }
    return NULL;
}

static int32_t open_list(const uint8_t *config, size_t len, void **instance, muretai_buffer *error) {
    const char *wrong;
    allowlist *list = (allowlist *)calloc(1, sizeof *list);
    if (list == NULL) return say(error, MURETAI_ERR_FAILED, "no memory");
    list->refuse_code = DEFAULT_CODE;
    list->config = (uint8_t *)malloc(len > 0 ? len : 1);
    if (list->config == NULL) {
        free(list);
        return say(error, MURETAI_ERR_FAILED, "no memory");
    }
    if (len > 0) memcpy(list->config, config, len);
    wrong = read_config(list, list->config, len);
    if (wrong != NULL) {
        free(list->config);
        free(list);
        return say(error, MURETAI_ERR_CONFIG, wrong);
    }
    *instance = list;
    return MURETAI_OK;
}

static bool lists(muretai_json list, muretai_json text) {
    muretai_json_items items = muretai_json_iterate(list);
    muretai_json item;
    while (muretai_json_next(&items, NULL, &item))
        if (muretai_json_same(item, text)) return true;
    return false;
}

static int32_t call(void *instance, const uint8_t *request, size_t len, muretai_buffer *answer) {
    allowlist *list = (allowlist *)instance;
    muretai_json_writer w = muretai_json_write(list->answer, sizeof list->answer);
    muretai_json doc;
    if (!muretai_json_parse(&doc, request, len)) return say(answer, MURETAI_ERR_FAILED, "the request is no JSON");
    if (!muretai_json_equals(muretai_json_get(doc, "op"), "policy"))
        return say(answer, MURETAI_ERR_FAILED, "there is only a policy here");
    muretai_json_put_object(&w);
    muretai_json_put_key(&w, "decision");
    if (muretai_json_equals(muretai_json_get(doc, "contact"), "direct")) {
        muretai_json_put_string(&w, "pass");
    } else if (lists(list->dids, muretai_json_get(doc, "from")) ||
               lists(list->domains, muretai_json_get(doc, "domain"))) {
        muretai_json_put_string(&w, "allow");
    } else {
        muretai_json_put_string(&w, "refuse");
        muretai_json_put_key(&w, "code");
        muretai_json_put_int(&w, list->refuse_code);
        if (list->detail[0] != 0) {
            muretai_json_put_key(&w, "detail");
            muretai_json_put_string(&w, list->detail);
        }
    }
    muretai_json_put_end_object(&w);
    answer->data = list->answer;
    answer->len = muretai_json_written(&w);
    return answer->len > 0 ? MURETAI_OK : say(answer, MURETAI_ERR_FAILED, "the answer does not fit");
}

/* All that was handed out is static or the instance's. */
static void release(muretai_buffer *buffer) {
    (void)buffer;
}

static void close_list(void *instance) {
    allowlist *list = (allowlist *)instance;
    free(list->config);
    free(list);
}

static const muretai_plugin TABLE = {
    MURETAI_PLUGIN_ABI, sizeof(muretai_plugin), describe, open_list, call, release, close_list,
};

const muretai_plugin *muretai_plugin_entry(uint32_t abi_min, uint32_t abi_max) {
    (void)abi_min;
    (void)abi_max;
    return &TABLE;
}
