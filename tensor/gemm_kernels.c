/* gemm_kernels.c -- matrix products, compiled once for each instruction set (LA_ISA).
 *
 * A tile of C, ROWS by 2 vectors, stays in registers while k runs: each step loads 2 vectors of B
 * and one number of A for each row, and does 2 ROWS multiply-adds.  With 12 rows of 2 vectors (32
 * registers) or 6 (16 registers) the multiply-adds are the limit, not the loads.  An element of C
 * is one sum over k in rising order, so its bits do not depend on where its tile begins.
 *
 * Around the tiles: k in pieces of DEPTH; rows in pieces of BLOCK, so that A's piece stays in the
 * second-level cache; columns in panels as wide as a tile.  A panel of B is copied into one dense
 * block if many rows use it; for a product with B' it always is, and is transposed on the way.
 * Goto, van de Geijn, "Anatomy of high-performance matrix multiplication", 2008. */
#include <string.h>

#include "tensor/vec.h"
#include "tensor/vec_isa.h"

enum {
    ROWS = LA_VEC_REGISTERS == 32 ? 12 : 6,
    WIDE = 2, /* vectors */
    PANEL = WIDE * LA_LANES,
    DEPTH = 512,
    BLOCK = 32 * ROWS,
    COPY_ROWS = 96, /* a panel of B is copied if as many rows use it ... */
    COPY_LD = 1024, /* ... and its own rows are more than so many bytes apart */
    ALIAS = 4096,   /* bytes: rows that far apart fall into the same places of the first cache */
    ALIAS_ROWS = 4 * ROWS,
    AHEAD = 16, /* rows of B that are asked for before they are copied */
    DOTS = 4,   /* columns at once in a product of few rows with B' */
};

/* C (rows, wide vectors) = or += A B over k; element (i,p) of A at A[i * row + p * step]. */
LA_INLINE void tile(const int rows, const int wide, int64_t k, const la_real *A, int64_t row,
                    int64_t step, const la_real *B, int64_t ldb, la_real *C, int64_t ldc, int add) {
    la_lanes acc[ROWS][WIDE];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < wide; j++)
            acc[i][j] = add ? (la_lanes) * (const la_lanes_at *)(C + i * ldc + j * LA_LANES)
                            : (la_lanes){0};
    for (int64_t p = 0; p < k; p++, B += ldb) {
        la_lanes b[WIDE];
#pragma GCC unroll 4
        for (int j = 0; j < wide; j++) b[j] = *(const la_lanes_at *)(B + j * LA_LANES);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            la_lanes a = A[i * row + p * step] - (la_lanes){0};
#pragma GCC unroll 4
            for (int j = 0; j < wide; j++) acc[i][j] += a * b[j];
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < wide; j++) *(la_lanes_at *)(C + i * ldc + j * LA_LANES) = acc[i][j];
}

/* One panel of C over one piece of k.  i, j, p: where A's piece and the panel begin in the whole
 * product, for its triangle. */
typedef struct strip {
    unsigned       how;
    int64_t        i, j, p, rows, k, lda, ldb, ldc;
    const la_real *A, *B;
    la_real       *C;
} strip;

/* Rows of the next tile. */
LA_INLINE int64_t tile_rows(int64_t left) {
    return left >= ROWS ? ROWS : ROWS > 8 && left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
}

LA_INLINE void run_strip(const strip *s, const int wide, const int transposed) {
    const int64_t row = transposed ? 1 : s->lda, step = transposed ? s->lda : 1;
    for (int64_t i = 0, r; i < s->rows; i += r) {
        r = tile_rows(s->rows - i);
        int64_t from = 0, to = s->k, last = s->i + i + r - 1; /* last row of the tile */
        if (s->how & LA_C_LOWER && s->j > last) continue;
        if (s->how & LA_A_LOWER && to > last + 1 - s->p) to = last + 1 - s->p;
        if (s->how & LA_A_UPPER && from < s->i + i - s->p) from = s->i + i - s->p;
        const la_real *A = s->A + i * row + from * step, *B = s->B + from * s->ldb;
        la_real       *C = s->C + i * s->ldc;
        const int      add = s->how & LA_ADD;
        const int64_t  k = to - from;
        if (r == ROWS)
            tile(ROWS, wide, k, A, row, step, B, s->ldb, C, s->ldc, add);
        else if (r == 8)
            tile(ROWS > 8 ? 8 : 1 /* never with 6 rows */, wide, k, A, row, step, B, s->ldb, C,
                 s->ldc, add);
        else if (r == 4)
            tile(4, wide, k, A, row, step, B, s->ldb, C, s->ldc, add);
        else if (r == 2)
            tile(2, wide, k, A, row, step, B, s->ldb, C, s->ldc, add);
        else
            tile(1, wide, k, A, row, step, B, s->ldb, C, s->ldc, add);
    }
}

static void strip_n1(const strip *s) { run_strip(s, 1, 0); }
static void strip_n2(const strip *s) { run_strip(s, 2, 0); }
static void strip_t1(const strip *s) { run_strip(s, 1, 1); }
static void strip_t2(const strip *s) { run_strip(s, 2, 1); }

static void any_strip(const strip *s, int wide, int transposed) {
    if (wide == 2)
        (transposed ? strip_t2 : strip_n2)(s);
    else
        (transposed ? strip_t1 : strip_n1)(s);
}

/* The last columns, fewer than a vector: B is dense already and padded, C goes through a buffer. */
static void ragged_strip(strip s, int64_t columns, int transposed) {
    la_real  buffer[BLOCK * LA_LANES];
    la_real *C = s.C;
    int64_t  ldc = s.ldc;
    if (s.how & LA_ADD) memset(buffer, 0, (size_t)(s.rows * LA_LANES) * sizeof *C);
    for (int64_t i = 0; s.how & LA_ADD && i < s.rows; i++)
        for (int64_t j = 0; j < columns; j++) buffer[i * LA_LANES + j] = C[i * ldc + j];
    s.C = buffer;
    s.ldc = LA_LANES;
    any_strip(&s, 1, transposed);
    for (int64_t i = 0; i < s.rows; i++) {
        if (s.how & LA_C_LOWER && s.j > s.i + i) continue; /* may be unwritten */
        for (int64_t j = 0; j < columns; j++) C[i * ldc + j] = buffer[i * LA_LANES + j];
    }
}

typedef la_real oct __attribute__((vector_size(8 * sizeof(la_real))));
typedef la_real oct_at
    __attribute__((vector_size(8 * sizeof(la_real)), aligned(sizeof(la_real)), may_alias));

#if defined(__clang__) || __GNUC__ >= 12
#define LA_SHUFFLE __builtin_shufflevector
#else
#if LA_REAL_BITS == 64
typedef int64_t oct_index __attribute__((vector_size(8 * sizeof(int64_t))));
#else
typedef int32_t oct_index __attribute__((vector_size(8 * sizeof(int32_t))));
#endif
#define LA_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (oct_index){__VA_ARGS__})
#endif

/* 8 rows and columns: pairs, then quarters, then halves change places. */
LA_INLINE void transpose8(const la_real *x, int64_t ldx, la_real *y, int64_t ldy) {
    oct a[8], b[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) a[i] = *(const oct_at *)(x + i * ldx);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        b[i] = LA_SHUFFLE(a[i], a[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        b[i + 1] = LA_SHUFFLE(a[i], a[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        int k = i / 2 * 4 + i % 2;
        a[k] = LA_SHUFFLE(b[k], b[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        a[k + 2] = LA_SHUFFLE(b[k], b[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        *(oct_at *)(y + i * ldy) = LA_SHUFFLE(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(oct_at *)(y + (i + 4) * ldy) = LA_SHUFFLE(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* y (cols,rows), ldy between rows, = x' for x (rows,cols). */
static void transpose(int64_t rows, int64_t cols, const la_real *x, int64_t ldx, la_real *y,
                      int64_t ldy) {
    int64_t i = 0;
    for (; i + 8 <= rows; i += 8) {
        int64_t j = 0;
        for (; j + 8 <= cols; j += 8) transpose8(x + i * ldx + j, ldx, y + j * ldy + i, ldy);
        for (; j < cols; j++)
            for (int64_t q = i; q < i + 8; q++) y[j * ldy + q] = x[q * ldx + j];
    }
    for (; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) y[j * ldy + i] = x[i * ldx + j];
}

/* Columns [j, j + columns) of B over [p, p + k), dense with ld = width, the rest 0. */
static void copy_panel(const la_gemm *g, int64_t p, int64_t k, int64_t j, int64_t columns,
                       int64_t width, la_real *to) {
    if (columns < width) memset(to, 0, (size_t)(k * width) * sizeof *to);
    if (g->form == LA_NT)
        transpose(columns, k, g->B + j * g->ldb + p, g->ldb, to, width);
    else if (columns == PANEL)
        for (int64_t q = 0; q < k; q++)
            for (int l = 0; l < WIDE; l++) {
                __builtin_prefetch(g->B + (q + AHEAD < k ? p + q + AHEAD : p) * g->ldb + j +
                                   l * LA_LANES);
                *(la_lanes *)(to + q * PANEL + l * LA_LANES) =
                    *(const la_lanes_at *)(g->B + (p + q) * g->ldb + j + l * LA_LANES);
            }
    else
        for (int64_t q = 0; q < k; q++)
            memcpy(to + q * width, g->B + (p + q) * g->ldb + j, (size_t)columns * sizeof *to);
}

/* A few rows times B': each element is a dot product of two dense rows. */
static void few_rows(const la_gemm *g) {
    for (int64_t j = 0; j < g->n; j += DOTS) {
        const int64_t  left = g->n - j, end = left < DOTS ? left : DOTS;
        const la_real *b0 = g->B + j * g->ldb, *b1 = end > 1 ? b0 + g->ldb : b0;
        const la_real *b2 = end > 2 ? b1 + g->ldb : b0, *b3 = end > 3 ? b2 + g->ldb : b0;
        for (int64_t i = 0; i < g->m; i++) {
            const la_real *a = g->A + i * g->lda;
            la_real        s0 = 0, s1 = 0, s2 = 0, s3 = 0;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
            for (int64_t p = 0; p < g->k; p++) {
                s0 += a[p] * b0[p];
                s1 += a[p] * b1[p];
                s2 += a[p] * b2[p];
                s3 += a[p] * b3[p];
            }
            const la_real sums[DOTS] = {s0, s1, s2, s3};
            la_real      *C = g->C + i * g->ldc + j;
            for (int64_t q = 0; q < end; q++) C[q] = g->how & LA_ADD ? C[q] + sums[q] : sums[q];
        }
    }
}

/* Rows [i, i + rows) of C over [p, p + k) of the sum; A's piece begins at `A`. */
static void row_block(const la_gemm *g, int64_t i, int64_t rows, int64_t p, int64_t k,
                      const la_real *A, int64_t lda) {
    la_real   panel[DEPTH * PANEL] __attribute__((aligned(64)));
    const int transposed = g->form == LA_TN;
    const int many = rows >= COPY_ROWS && g->ldb * (int64_t)sizeof *g->B > COPY_LD;
    for (int64_t j = 0, width; j < g->n; j += width) {
        const int wide = g->n - j >= PANEL ? 2 : 1;
        width = wide * LA_LANES;
        const int64_t columns = g->n - j < width ? g->n - j : width;
        strip         s = {.how = g->how | (p ? LA_ADD : 0),
                           .i = i,
                           .j = j,
                           .p = p,
                           .rows = rows,
                           .k = k,
                           .A = A,
                           .lda = lda,
                           .B = g->B + p * g->ldb + j,
                           .ldb = g->ldb,
                           .C = g->C + i * g->ldc + j,
                           .ldc = g->ldc};
        if (g->form == LA_NT || columns < width || many) {
            copy_panel(g, p, k, j, columns, width, panel);
            s.B = panel;
            s.ldb = width;
        }
        if (columns < width)
            ragged_strip(s, columns, transposed);
        else
            any_strip(&s, wide, transposed);
    }
}

/* The same with A's piece copied, for rows that would push each other out of the cache. */
static void aliased_block(const la_gemm *g, int64_t i, int64_t rows, int64_t p, int64_t k) {
    enum { LD = DEPTH + LA_LANES };
    la_real A[ALIAS_ROWS * LD] __attribute__((aligned(64)));
    for (int64_t r = 0; r < rows; r++)
        memcpy(A + r * LD, g->A + (i + r) * g->lda + p, (size_t)k * sizeof *A);
    row_block(g, i, rows, p, k, A, LD);
}

void LA_KERNEL(gemm)(const la_gemm *g) {
    if (g->form == LA_NT && g->m < ROWS) {
        few_rows(g);
        return;
    }
    const int aliased = g->form != LA_TN && g->m >= ROWS && g->n > 2 * PANEL &&
                        g->lda * (int64_t)sizeof *g->A % ALIAS == 0;
    const int64_t block = aliased ? ALIAS_ROWS : BLOCK;
    for (int64_t p = 0; p == 0 || p < g->k; p += DEPTH)
        for (int64_t i = 0; i < g->m; i += block) {
            int64_t k = g->k - p < DEPTH ? g->k - p : DEPTH;
            int64_t rows = g->m - i < block ? g->m - i : block;
            if (aliased)
                aliased_block(g, i, rows, p, k);
            else if (g->form == LA_TN)
                row_block(g, i, rows, p, k, g->A + p * g->lda + i, g->lda);
            else
                row_block(g, i, rows, p, k, g->A + i * g->lda + p, g->lda);
        }
}

void LA_KERNEL(transpose)(int64_t rows, int64_t cols, const la_real *x, int64_t ldx, la_real *y,
                          int64_t ldy) {
    transpose(rows, cols, x, ldx, y, ldy);
}
