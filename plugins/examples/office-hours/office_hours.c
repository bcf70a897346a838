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
#include "muretai_wasm.h"

#define DAY_MINUTES 1440

typedef struct hours {
    int32_t offset; /* minutes */
    int32_t from;   /* minutes of the day */
    int32_t to;     /* may lie on the next day: more than DAY_MINUTES */
    uint8_t days;   /* bit 0 is Monday */
    int is_holding;
} hours;

static hours office;

mw_document describe(void) {
    return mw_say("{\"name\":\"office-hours\",\"version\":\"1.0.0\",\"policy\":true,\"skills\":[],"
                  "\"description\":\"Strangers are heard in office hours only\"}");
}

/* Reads "HH:MM" to minutes of the day. */
static int read_time(mw_text config, const char *name, int32_t *minutes) {
    mw_text value, text;
    if (!mw_member(config, name, &value) || !mw_string(value, &text)) return 0;
    if (text.len != 5 || text.at[2] != ':') return 0;
    for (uint32_t i = 0; i < 5; i++)
        if (i != 2 && (text.at[i] < '0' || text.at[i] > '9')) return 0;
    int32_t hour = (text.at[0] - '0') * 10 + text.at[1] - '0', minute = (text.at[3] - '0') * 10 + text.at[4] - '0';
    if (hour > 23 || minute > 59) return 0;
    *minutes = hour * 60 + minute;
    return 1;
}

static int read_days(mw_text value, uint8_t *days) {
    mw_text item;
    int64_t day;
    uint32_t i = 0;
    *days = 0;
    while (mw_item(value, &i, &item)) {
        if (!mw_integer(item, &day) || day < 1 || day > 7) return 0;
        *days |= (uint8_t)(1u << (day - 1));
    }
    return *days != 0;
}

mw_document open_config(mw_text config) {
    mw_text value;
    int64_t offset = 0;
    if (mw_member(config, "utcOffsetMinutes", &value) && (!mw_integer(value, &offset) || offset < -840 || offset > 840))
        return mw_say("{\"error\":\"utcOffsetMinutes is a number from -840 to 840\"}");
    if (!read_time(config, "from", &office.from) || !read_time(config, "to", &office.to) || office.from == office.to)
        return mw_say("{\"error\":\"from and to are two times such as 09:00 and 17:00\"}");
    office.days = 0x1f;
    if (mw_member(config, "days", &value) && !read_days(value, &office.days))
        return mw_say("{\"error\":\"days are numbers from 1, Monday, to 7\"}");
    if (mw_member(config, "outside", &value)) {
        office.is_holding = mw_string_is(value, "hold");
        if (!office.is_holding && !mw_string_is(value, "refuse"))
            return mw_say("{\"error\":\"outside is refuse or hold\"}");
    }
    office.offset = (int32_t)offset;
    if (office.to < office.from) office.to += DAY_MINUTES;
    return 0;
}

/* Whether the office has its hours on a day, counted from 1970-01-01, which was a Thursday. */
static int is_office_day(int64_t day) { return office.days >> (((day + 3) % 7 + 7) % 7) & 1; }

/* Seconds until the office opens; 0 while it is open. */
static int64_t until_open(int64_t now) {
    int64_t local = now + (int64_t)office.offset * 60;
    int64_t today = local / 86400;
    if (local % 86400 < 0) today--;
    /* Yesterday's hours may last until today; after a week the same day comes round. */
    for (int64_t day = today - 1; day <= today + 7; day++) {
        if (!is_office_day(day)) continue;
        int64_t opens = day * 86400 + office.from * 60, closes = day * 86400 + office.to * 60;
        if (local < closes) return local >= opens ? 0 : opens - local;
    }
    return 86400;
}

mw_document call(mw_text request) {
    mw_text value;
    int64_t now;
    if (!mw_member(request, "op", &value) || !mw_string_is(value, "policy"))
        return mw_say("{\"error\":\"there is no skill here\"}");
    if (!mw_member(request, "contact", &value)) return mw_say("{\"error\":\"the request has no contact\"}");
    if (!mw_string_is(value, "none")) return mw_say("{\"decision\":\"pass\"}");
    if (!mw_member(request, "now", &value) || !mw_integer(value, &now))
        return mw_say("{\"error\":\"the request has no time\"}");
    int64_t wait = until_open(now);
    if (wait == 0) return mw_say("{\"decision\":\"pass\"}");
    if (office.is_holding) return mw_say("{\"decision\":\"hold\"}");
    char *room = mw_alloc(256);
    if (room == 0) return mw_say("{\"error\":\"no memory\"}");
    mw_out out = {room, 0, 256, 0};
    mw_puts(&out, "{\"decision\":\"refuse\",\"code\":-32004,\"detail\":\"outside office hours; send this again later\","
                  "\"retryAfter\":");
    mw_put_integer(&out, wait);
    mw_puts(&out, "}");
    return mw_answer((mw_text){out.at, out.len});
}
