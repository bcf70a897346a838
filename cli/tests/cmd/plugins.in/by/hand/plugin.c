/*
 * partners: a trust policy for muretai in WebAssembly. Strangers of a domain that the owner lists, and that was verified,
 * are put before the owner; about everybody else it has no opinion. Its configuration:
 *
 *     domains = ["south.example"]
 *
 * What the functions must do is said in muretai_wasm.h.
 */
#include "muretai_json.h"
#include "muretai_wasm.h"

static muretai_json domains;

muretai_document describe(void) {
    return muretai_say("{\"name\":\"partners\",\"version\":\"0.1.0\",\"policy\":true,\"skills\":[],"
                       "\"description\":\"Holds strangers of listed domains for the owner\"}");
}

muretai_document open_config(const uint8_t *config, size_t len) {
    muretai_json doc, key, value, item;
    muretai_json_items items, listed;
    if (!muretai_json_parse(&doc, config, len)) return muretai_say("{\"error\":\"the configuration is no JSON\"}");
    items = muretai_json_iterate(doc);
    while (muretai_json_next(&items, &key, &value)) {
        if (!muretai_json_equals(key, "domains")) return muretai_say("{\"error\":\"there is only `domains`\"}");
        listed = muretai_json_iterate(value);
        while (muretai_json_next(&listed, NULL, &item))
            if (muretai_json_typeof(item) != MURETAI_JSON_STRING)
                return muretai_say("{\"error\":\"`domains` is a list of texts\"}");
    }
    domains = muretai_json_get(doc, "domains");
    if (muretai_json_typeof(domains) != MURETAI_JSON_ARRAY)
        return muretai_say("{\"error\":\"`domains` is a list of texts\"}");
    return muretai_nothing();
}

muretai_document call(const uint8_t *request, size_t len) {
    muretai_json doc, domain, item;
    muretai_json_items items = muretai_json_iterate(domains);
    if (!muretai_json_parse(&doc, request, len)) return muretai_say("{\"error\":\"the request is no JSON\"}");
    if (!muretai_json_equals(muretai_json_get(doc, "op"), "policy"))
        return muretai_say("{\"error\":\"there is only a policy here\"}");
    domain = muretai_json_get(doc, "domain");
    if (muretai_json_equals(muretai_json_get(doc, "contact"), "none"))
        while (muretai_json_next(&items, NULL, &item))
            if (muretai_json_same(item, domain)) return muretai_say("{\"decision\":\"hold\"}");
    return muretai_say("{\"decision\":\"pass\"}");
}
