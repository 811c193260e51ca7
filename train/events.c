/* events.c -- records of TensorBoard's event files, and the messages in them. */
#include "train/events.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "events.out.tfevents."

/* --- the checksum ---
 *
 * The table has what the last 4 bits become in 4 shifts, each of which adds (xor) the polynomial if
 * a 1 falls out. */
uint32_t la_crc32c(const void *bytes, size_t n) {
    static const uint32_t table[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
                                       0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
                                       0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                       0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const unsigned char  *b = bytes;
    uint32_t              crc = ~0U;
    for (size_t i = 0; i < n; i++) {
        crc ^= b[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

/* --- messages: fields of (number, form) and a value --- */

typedef enum wire_form { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 } wire_form;

typedef struct wire {
    size_t        n; /* above LA_EVENT_BYTES: it did not fit */
    unsigned char bytes[LA_EVENT_BYTES];
} wire;

static void put(wire *w, const void *bytes, size_t n) {
    if (w->n + n <= LA_EVENT_BYTES) memcpy(w->bytes + w->n, bytes, n);
    w->n += n;
}

static void put_fixed(wire *w, int bytes, uint64_t x) { /* little-endian */
    for (int i = 0; i < bytes; i++) put(w, &(unsigned char){(unsigned char)(x >> 8 * i)}, 1);
}

static void put_varint(wire *w, uint64_t x) { /* 7 bits a byte, the lowest first */
    for (; x > 127; x >>= 7) put(w, &(unsigned char){(unsigned char)(x | 128)}, 1);
    put(w, &(unsigned char){(unsigned char)x}, 1);
}

static void put_key(wire *w, int field, wire_form form) {
    put_varint(w, (uint64_t)field << 3 | (uint64_t)form);
}

static void put_bytes(wire *w, int field, const void *bytes, size_t n) {
    put_key(w, field, BYTES);
    put_varint(w, n);
    put(w, bytes, n);
}

static void put_double(wire *w, int field, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(w, field, FIXED64);
    put_fixed(w, 8, bits);
}

static void put_float(wire *w, int field, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_key(w, field, FIXED32);
    put_fixed(w, 4, bits);
}

/* What every Event begins with.  A step of 0 is what a reader takes if none is there. */
static void begin_event(wire *w, double wall_time, int64_t step) {
    w->n = 0;
    put_double(w, 1, wall_time);
    if (!step) return;
    put_key(w, 2, VARINT);
    put_varint(w, (uint64_t)step);
}

/* --- records --- */

static void put_checksum(wire *w, const unsigned char *bytes, size_t n) {
    uint32_t crc = la_crc32c(bytes, n);
    put_fixed(w, 4, (uint32_t)((crc >> 15 | crc << 17) + 0xa282ead8U));
}

static la_status write_record(la_events *e, const wire *event) {
    wire head = {0}, foot = {0};
    if (event->n > LA_EVENT_BYTES)
        return la_fail(LA_ARG, "an event has more than %d bytes", LA_EVENT_BYTES);
    put_fixed(&head, 8, event->n);
    put_checksum(&head, head.bytes, head.n);
    put_checksum(&foot, event->bytes, event->n);
    unsigned char record[8 + 4 + LA_EVENT_BYTES + 4];
    size_t        n = head.n + event->n + foot.n;
    memcpy(record, head.bytes, head.n);
    memcpy(record + head.n, event->bytes, event->n);
    memcpy(record + head.n + event->n, foot.bytes, foot.n);
    return la_append_put(e, record, n);
}

/* --- files --- */

int la_events_name(const char *name) { return !strncmp(name, PREFIX, strlen(PREFIX)); }

/* The first second after those in the names of the folder; -1: it cannot be read. */
static long long seconds_after(const char *dir) {
    long long      last = -1, seconds;
    struct dirent *entry;
    DIR           *d = opendir(dir);
    while (d && (entry = readdir(d)))
        if (sscanf(entry->d_name, PREFIX "%lld", &seconds) == 1 && seconds > last) last = seconds;
    if (d) closedir(d);
    return d ? last + 1 : -1;
}

la_status la_events_open(la_events *e, const char *dir, double wall_time) {
    static const char version[] = "brain.Event:2";
    char              host[256] = "";
    long long         after = seconds_after(dir), now = (long long)wall_time;
    size_t            room = strlen(dir) + sizeof host + 80;
    *e = (la_events){0};
    if (after < 0) return la_fail(LA_IO, "cannot read the folder %s: %s", dir, strerror(errno));
    if (gethostname(host, sizeof host - 1) || !*host) strcpy(host, "localhost");
    char *path = malloc(room);
    if (!path) return la_fail(LA_NOMEM, "no memory for the name %s", dir);
    snprintf(path, room, "%s/" PREFIX "%010lld.%s.%ld", dir, after > now ? after : now, host,
             (long)getpid());
    la_status opened = la_append_open(e, path, O_CREAT | O_EXCL, 0);
    free(path);
    LA_TRY(opened);
    wire event;
    begin_event(&event, wall_time, 0);
    put_bytes(&event, 3, version, strlen(version));
    return write_record(e, &event);
}

la_status la_events_restart(la_events *e, double wall_time, int64_t step) {
    enum { START = 1 };
    wire event, session = {0};
    put_key(&session, 1, VARINT);
    put_varint(&session, START);
    begin_event(&event, wall_time, step);
    put_bytes(&event, 7, session.bytes, session.n);
    return write_record(e, &event);
}

la_status la_events_scalars(la_events *e, double wall_time, int64_t step, int n,
                            const la_scalar *scalars) {
    wire event, summary = {0}, value;
    for (int i = 0; i < n; i++) {
        value.n = 0;
        put_bytes(&value, 1, scalars[i].tag, strlen(scalars[i].tag));
        put_float(&value, 2, (float)scalars[i].value);
        put_bytes(&summary, 1, value.bytes, value.n);
    }
    begin_event(&event, wall_time, step);
    put_bytes(&event, 5, summary.bytes, summary.n);
    return write_record(e, &event);
}
