/* Tests the policy without muretai: the table is called as the host calls it. Prints nothing when all is well. */
#include <stdio.h>
#include <string.h>

#include "muretai_plugin.h"

static int failures;

static void expect(const muretai_plugin *plugin, void *instance, const char *request, const char *answer) {
    muretai_buffer out = {NULL, 0, NULL};
    int32_t code = plugin->call(instance, (const uint8_t *)request, strlen(request), &out);
    if (code != MURETAI_OK || out.len != strlen(answer) || memcmp(out.data, answer, out.len) != 0) {
        fprintf(stderr, "%s\n  expected %s\n  got %d %.*s\n", request, answer, (int)code, (int)out.len,
                (const char *)out.data);
        failures++;
    }
    if (out.data != NULL) plugin->release(&out);
}

static void refuses(const muretai_plugin *plugin, const char *config) {
    muretai_buffer error = {NULL, 0, NULL};
    void *instance = NULL;
    if (plugin->open((const uint8_t *)config, strlen(config), &instance, &error) != MURETAI_ERR_CONFIG) {
        fprintf(stderr, "accepted the config %s\n", config);
        failures++;
    }
    if (error.data != NULL) plugin->release(&error);
}

int main(void) {
    static const char CONFIG[] =
        "{\"dids\":[\"did:key:zNorth\"],\"domains\":[\"example.com\"],"
        "\"refuse_code\":-32013,\"detail\":\"not \\\"you\\\"\"}";
    const muretai_plugin *plugin = muretai_plugin_entry(MURETAI_PLUGIN_ABI, MURETAI_PLUGIN_ABI);
    muretai_buffer error = {NULL, 0, NULL};
    void *instance = NULL;
    if (plugin == NULL || plugin->abi != MURETAI_PLUGIN_ABI) return 1;
    if (plugin->open((const uint8_t *)CONFIG, strlen(CONFIG), &instance, &error) != MURETAI_OK) return 1;
    expect(plugin, instance, "{\"op\":\"policy\",\"from\":\"did:key:zNorth\",\"contact\":\"none\",\"domain\":null}",
           "{\"decision\":\"allow\"}");
    expect(plugin, instance,
           "{\"op\":\"policy\",\"from\":\"did:key:zEast\",\"contact\":\"none\",\"domain\":\"example.com\"}",
           "{\"decision\":\"allow\"}");
    expect(plugin, instance, "{\"op\":\"policy\",\"from\":\"did:key:zEast\",\"contact\":\"direct\",\"domain\":null}",
           "{\"decision\":\"pass\"}");
    expect(plugin, instance,
           "{\"op\":\"policy\",\"from\":\"did:key:zEast\",\"contact\":\"introduced\",\"domain\":\"example.co\"}",
           "{\"decision\":\"refuse\",\"code\":-32013,\"detail\":\"not \\\"you\\\"\"}");
    plugin->close(instance);
    refuses(plugin, "");
    refuses(plugin, "[]");
    refuses(plugin, "{\"dids\":\"did:key:zNorth\"}");
    refuses(plugin, "{\"dids\":[1]}");
    refuses(plugin, "{\"refuse_code\":0}");
    refuses(plugin, "{\"refuse_code\":-32601}");
    refuses(plugin, "{\"detail\":\"two\\nlines\"}");
    refuses(plugin, "{\"detail\":\"\"}");
    refuses(plugin, "{\"did\":[\"did:key:zNorth\"]}");
    return failures == 0 ? 0 : 1;
}
