/*
 * A trust policy in WebAssembly: outside office hours, strangers wait or are told to come back. Contacts, and whom they
 * introduced, are never its business.
 *
 * Configuration, all of it optional but `from` and `to`:
 *
 *   utcOffsetMinutes = 120      # of the office, -840 to 840; 0 when absent
 *   days = [1, 2, 3, 4, 5]      # 1 is Monday; Monday to Friday when absent
 *   from = "09:00"
 *   to = "17:00"                # earlier than `from`: on the day after
 *   outside = "refuse"          # with -32004 and the seconds until then, or "hold" for the owner; refuse when absent
 */
#include "muretai_json.h"
#include "muretai_wasm.h"

#define DAY_MINUTES 1440
#define DAY_SECS 86400

typedef struct hours {
    int64_t offset; /* minutes */
    int32_t from;   /* minutes of the day */
    int32_t to;     /* may lie on the next day: more than DAY_MINUTES */
    uint8_t days;   /* bit 0 is Monday */
    bool is_holding;
} hours;

static hours office;

muretai_document describe(void) {
    return muretai_say("{\"name\":\"office-hours\",\"version\":\"1.0.0\",\"policy\":true,\"skills\":[],"
                       "\"description\":\"Strangers are heard in office hours only\"}");
}

/* Two digits, below a limit. */
static bool read_two(const char *digits, int32_t limit, int32_t *number) {
    if (digits[0] < '0' || digits[0] > '9' || digits[1] < '0' || digits[1] > '9') return false;
    *number = (digits[0] - '0') * 10 + digits[1] - '0';
    return *number < limit;
}

/* Reads "HH:MM" to minutes of the day. */
static bool read_time(muretai_json value, int32_t *minutes) {
    char text[6];
    size_t len;
    int32_t hour, minute;
    if (!muretai_json_string(value, text, sizeof text, &len) || len != 5 || text[2] != ':') return false;
    if (!read_two(text, 24, &hour) || !read_two(text + 3, 60, &minute)) return false;
    *minutes = hour * 60 + minute;
    return true;
}

static bool read_days(muretai_json value, uint8_t *days) {
    muretai_json_items items = muretai_json_iterate(value);
    muretai_json item;
    int64_t day;
    if (muretai_json_typeof(value) != MURETAI_JSON_ARRAY) return false;
    *days = 0;
    while (muretai_json_next(&items, NULL, &item)) {
        if (!muretai_json_int(item, &day) || day < 1 || day > 7) return false;
        *days |= (uint8_t)(1u << (day - 1));
    }
    return *days != 0;
}

/* NULL, or what is wrong with a member. */
static const char *read_member(muretai_json key, muretai_json value) {
    if (muretai_json_equals(key, "utcOffsetMinutes")) {
        if (muretai_json_int(value, &office.offset) && office.offset >= -840 && office.offset <= 840) return NULL;
        return "{\"error\":\"utcOffsetMinutes is a number from -840 to 840\"}";
    }
    if (muretai_json_equals(key, "days"))
        return read_days(value, &office.days) ? NULL : "{\"error\":\"days are numbers from 1, Monday, to 7\"}";
    if (muretai_json_equals(key, "from"))
        return read_time(value, &office.from) ? NULL : "{\"error\":\"from is a time such as 09:00\"}";
    if (muretai_json_equals(key, "to"))
        return read_time(value, &office.to) ? NULL : "{\"error\":\"to is a time such as 17:00\"}";
    if (muretai_json_equals(key, "outside")) {
        office.is_holding = muretai_json_equals(value, "hold");
        if (office.is_holding || muretai_json_equals(value, "refuse")) return NULL;
        return "{\"error\":\"outside is refuse or hold\"}";
    }
    return "{\"error\":\"there are only utcOffsetMinutes, days, from, to and outside\"}";
}

muretai_document open_config(const uint8_t *config, size_t len) {
    muretai_json doc, key, value;
    muretai_json_items items;
    office = (hours){.from = -1, .to = -1, .days = 0x1f};
    if (!muretai_json_parse(&doc, config, len)) return muretai_say("{\"error\":\"the configuration is no JSON\"}");
    items = muretai_json_iterate(doc);
    while (muretai_json_next(&items, &key, &value)) {
        const char *wrong = read_member(key, value);
        if (wrong != NULL) return muretai_say(wrong);
    }
    if (office.from < 0 || office.to < 0 || office.from == office.to)
        return muretai_say("{\"error\":\"from and to are two times such as 09:00 and 17:00\"}");
    if (office.to < office.from) office.to += DAY_MINUTES;
    return muretai_nothing();
}

/* Whether the office has its hours on a day, counted from 1970-01-01, which was a Thursday. */
static bool is_office_day(int64_t day) {
    return (office.days >> (((day + 3) % 7 + 7) % 7) & 1) != 0;
}

/* Seconds until the office opens; 0 while it is open. */
static int64_t until_open(int64_t now) {
    int64_t local = now + office.offset * 60;
    int64_t today = local / DAY_SECS - (local % DAY_SECS < 0);
    int64_t day;
    /* Yesterday's hours may last until today; after a week the same day comes round. */
    for (day = today - 1; day <= today + 7; day++) {
        int64_t opens = day * DAY_SECS + (int64_t)office.from * 60, closes = day * DAY_SECS + (int64_t)office.to * 60;
        if (is_office_day(day) && local < closes) return local >= opens ? 0 : opens - local;
    }
    return DAY_SECS;
}

static muretai_document refuse(int64_t wait) {
    static uint8_t answer[256];
    muretai_json_writer w = muretai_json_write(answer, sizeof answer);
    muretai_json_put_object(&w);
    muretai_json_put_key(&w, "decision");
    muretai_json_put_string(&w, "refuse");
    muretai_json_put_key(&w, "code");
    muretai_json_put_int(&w, -32004);
    muretai_json_put_key(&w, "detail");
    muretai_json_put_string(&w, "outside office hours; send this again later");
    muretai_json_put_key(&w, "retryAfter");
    muretai_json_put_int(&w, wait);
    muretai_json_put_end_object(&w);
    return muretai_answer(answer, muretai_json_written(&w));
}

muretai_document call(const uint8_t *request, size_t len) {
    muretai_json doc;
    int64_t now, wait;
    if (!muretai_json_parse(&doc, request, len)) return muretai_say("{\"error\":\"the request is no JSON\"}");
    if (!muretai_json_equals(muretai_json_get(doc, "op"), "policy"))
        return muretai_say("{\"error\":\"there is only a policy here\"}");
    if (!muretai_json_equals(muretai_json_get(doc, "contact"), "none")) return muretai_say("{\"decision\":\"pass\"}");
    if (!muretai_json_int(muretai_json_get(doc, "now"), &now) || now < 0 || now > INT64_C(1) << 40)
        return muretai_say("{\"error\":\"the request has no time\"}");
    wait = until_open(now);
    if (wait == 0) return muretai_say("{\"decision\":\"pass\"}");
    return office.is_holding ? muretai_say("{\"decision\":\"hold\"}") : refuse(wait);
}
