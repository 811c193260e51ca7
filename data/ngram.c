/* ngram.c -- counts of token sequences in a trie, and the losses that come of them.
 *
 * A node is a sequence: the root is the empty one, and (node of h, w) leads to the node of h w by
 * one hash table for the whole trie.  The key is exact, 32 bits for the node and 32 for the token,
 * so two sequences never share counts.  At token i the nodes of the last 1 .. order tokens are the
 * children, by token i, of those of the last 0 .. order - 1 tokens at i - 1: one step each,
 * whatever their length. */
#include "data/ngram.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define NODES_MOST UINT32_MAX /* their numbers take 32 bits */

enum { NONE = 0, ROOT = 0 }; /* the root is no child: in the table its number means a free place */

typedef struct node {
    uint32_t parent;
    int32_t  token;
    uint32_t count;  /* c(h w): of the whole sequence           */
    uint32_t follow; /* c(h w .): how many tokens came after it */
    uint32_t types;  /* N1+(h w .): how many different ones     */
} node;

struct la_ngram {
    int64_t   vocab;
    int       order;
    node     *nodes;
    uint64_t  n, room; /* nodes in use, allocated          */
    uint32_t *table;   /* numbers of nodes, at most half full */
    uint64_t  places;  /* of the table: a power of 2         */
};

/* The finaliser of MurmurHash3 (Appleby): each bit of the key changes half of the hash. */
static uint64_t hash(uint32_t parent, int32_t token) {
    uint64_t h = (uint64_t)parent << 32 | (uint32_t)token;
    h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 33;
}

/* The place of a child in the table, or the free one where it belongs. */
static uint64_t place(const la_ngram *g, uint32_t parent, int32_t token) {
    uint64_t i = hash(parent, token) & (g->places - 1);
    for (; g->table[i] != NONE; i = (i + 1) & (g->places - 1)) {
        const node *c = &g->nodes[g->table[i]];
        if (c->parent == parent && c->token == token) break;
    }
    return i;
}

static la_status no_memory(const la_ngram *g, uint64_t bytes) {
    return la_fail(LA_NOMEM,
                   "no memory for counting sequences of up to %d tokens: %llu different ones so "
                   "far, and room for more takes %llu bytes; a smaller order or a shorter text "
                   "takes less",
                   g->order, (unsigned long long)g->n, (unsigned long long)bytes);
}

static la_status grow_nodes(la_ngram *g) {
    enum { LEAST = 1024 };
    if (g->n >= NODES_MOST)
        return la_fail(LA_NOMEM, "more than %llu different sequences of up to %d tokens",
                       (unsigned long long)NODES_MOST, g->order);
    uint64_t room = g->room ? g->room + g->room / 2 : LEAST;
    node    *more = realloc(g->nodes, room * sizeof *more);
    if (!more) return no_memory(g, room * sizeof *more);
    g->nodes = more;
    g->room = room;
    return LA_OK;
}

static la_status grow_table(la_ngram *g) {
    enum { LEAST = 4096 };
    uint64_t  places = g->places ? 2 * g->places : LEAST;
    uint32_t *more = calloc(places, sizeof *more);
    if (!more) return no_memory(g, places * sizeof *more);
    free(g->table);
    g->table = more;
    g->places = places;
    for (uint64_t i = ROOT + 1; i < g->n; i++)
        g->table[place(g, g->nodes[i].parent, g->nodes[i].token)] = (uint32_t)i;
    return LA_OK;
}

/* Counts token after `parent`; *child is the node of both. */
static la_status add(la_ngram *g, uint32_t parent, int32_t token, uint32_t *child) {
    uint64_t at = place(g, parent, token);
    if (g->table[at] == NONE) {
        if (g->n == g->room) LA_TRY(grow_nodes(g));
        g->nodes[g->n] = (node){.parent = parent, .token = token};
        g->table[at] = (uint32_t)g->n++;
        g->nodes[parent].types++;
    }
    *child = g->table[at];
    g->nodes[*child].count++;
    g->nodes[parent].follow++;
    if (2 * g->n > g->places) LA_TRY(grow_table(g));
    return LA_OK;
}

static la_status token_at(const la_ngram *g, const la_ids *ids, int64_t i, int32_t *token) {
    *token = la_ids_get(ids, i);
    if (*token < 0 || *token >= g->vocab)
        return la_fail(LA_DATA, "token %lld of the text is %d, and the vocabulary has %lld ids",
                       (long long)i, *token, (long long)g->vocab);
    return LA_OK;
}

static la_status count_text(la_ngram *g, const la_ids *ids) {
    uint32_t last[LA_NGRAM_MOST] = {ROOT}; /* nodes of the last k tokens */
    LA_TRY(grow_nodes(g));
    LA_TRY(grow_table(g));
    g->nodes[g->n++] = (node){0};
    for (int64_t i = 0; i < ids->n; i++) {
        int32_t token;
        LA_TRY(token_at(g, ids, i, &token));
        int longest = i < g->order ? (int)i + 1 : g->order;
        for (int k = longest; k >= 1; k--) { /* downwards: last[k - 1] is still that of i - 1 */
            uint32_t child;
            LA_TRY(add(g, last[k - 1], token, &child));
            if (k < g->order) last[k] = child;
        }
    }
    return LA_OK;
}

la_status la_ngram_create(la_ngram **out, const la_ids *ids, int64_t vocab, int order) {
    *out = NULL;
    if (order < 1 || order > LA_NGRAM_MOST)
        return la_fail(LA_ARG, "counts are of sequences of 1 to %d tokens, and not of %d",
                       LA_NGRAM_MOST, order);
    if (vocab < 1 || vocab > INT64_C(1) << 31)
        return la_fail(LA_ARG, "a vocabulary has 1 to 2^31 ids, and not %lld", (long long)vocab);
    if (ids->n > UINT32_MAX)
        return la_fail(LA_DATA, "the text has %lld tokens, and counts go up to %llu",
                       (long long)ids->n, (unsigned long long)UINT32_MAX);
    la_ngram *g = calloc(1, sizeof *g);
    if (!g) return la_fail(LA_NOMEM, "no memory for counts");
    g->vocab = vocab;
    g->order = order;
    la_status s = count_text(g, ids);
    if (s == LA_OK)
        *out = g;
    else
        la_ngram_destroy(g);
    return s;
}

void la_ngram_destroy(la_ngram *g) {
    if (!g) return;
    free(g->nodes);
    free(g->table);
    free(g);
}

/* What is known after k tokens of a text: the nodes of its last 0 .. order - 1 tokens, as far as
 * they were ever counted. */
typedef struct context {
    int      n; /* nodes: those of the last 0 .. n - 1 tokens */
    uint32_t last[LA_NGRAM_MOST];
} context;

/* p(token | the last tokens), from the shortest context up:
 *
 *   p_0 = 1/V,   p_(k+1) = (c(h w) + N1+(h .) p_k) / (c(h .) + N1+(h .)),   h the last k tokens
 *
 * Nodes of longer contexts that were not counted, or that nothing follows, leave p as it is.  Moves
 * the context on by the token. */
static double predict(const la_ngram *g, int order, int32_t token, context *h) {
    double  p = 1 / (double)g->vocab;
    context next = {1, {ROOT}};
    for (int k = 0; k < h->n && k < order; k++) {
        const node *c = &g->nodes[h->last[k]];
        uint32_t    child = g->table[place(g, h->last[k], token)];
        double      count = child == NONE ? 0 : g->nodes[child].count;
        if (c->follow) p = (count + c->types * p) / ((double)c->follow + c->types);
        if (child != NONE && k + 1 < order) next.last[next.n++] = child;
    }
    *h = next;
    return p;
}

la_status la_ngram_loss(const la_ngram *g, int order, const la_ids *ids, int64_t first,
                        int64_t count, double *loss) {
    if (order < 0 || order > g->order)
        return la_fail(LA_ARG, "order %d of counts of up to %d tokens", order, g->order);
    if (first < 0 || count < 1 || first > ids->n || count > ids->n - first)
        return la_fail(LA_ARG, "a loss over %lld tokens from %lld on, of a text of %lld",
                       (long long)count, (long long)first, (long long)ids->n);
    context h = {1, {ROOT}};
    double  sum = 0;
    int64_t before = order > 1 ? order - 1 : 0; /* tokens of a whole context */
    for (int64_t i = first > before ? first - before : 0; i < first + count; i++) {
        int32_t token;
        LA_TRY(token_at(g, ids, i, &token));
        double p = predict(g, order, token, &h);
        if (i >= first) sum -= log(p);
    }
    *loss = sum / (double)count;
    return LA_OK;
}
