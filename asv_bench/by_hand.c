/* Gathers written by hand in C, which `gathernest bench --peers 'c*'` compares the kernels with.
 *
 * A job is out[b, o, i, :] = data[b, o, indices[b, i], :] on contiguous arrays, where a row `:` has `row` bytes, or with
 * `columns` out[b, i, j] = data[b, indices[b, i, j], j]. Each kernel has variants: how elements are read and rows are
 * copied, how far ahead is prefetched, cached or non-temporal stores, one thread or all, and when indices are checked.
 * Checked indices below zero count from the end, as in NumPy; unchecked ones are used as they are.
 *
 * AVX-512 or AVX2 where the CPU that it is compiled for has them (`-march=native`), and plain C everywhere else.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef __AVX2__
#include <immintrin.h>
#endif
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define WIDE 1
#else
#define WIDE 0
#endif

#define INLINE static inline __attribute__((always_inline))
#define LINE 64
#define BLOCK 16 /* elements of a step */
#define HUGE_PAGES_FROM (4 << 20) /* as NumPy */
#define SPINS 20000

enum check { UNCHECKED, SEPARATE, FUSED };
enum { NEXT = -1 }; /* as `near`: prefetch the next table, or its rows */
enum kernel { PLAIN, WORDS, LANES_8, LANES_16, COPY, VECTORS_16, VECTORS_32, VECTORS_64 };

typedef struct {
    const char *data;
    const int64_t *indices;
    char *out;
    int64_t batches, outer, count, axis, row, columns;
    /* How: `staged` resolves the indices of a batch once, to 32 bits; `near` and `far` are distances of prefetches. */
    int64_t kernel, staged, near, far, stream, threads, check, fresh;
} Job;

/* One index: its position, or 0 for one that is out of range, which is counted. */
INLINE int64_t place(const void *indices, int wide, int64_t i, int64_t axis, int check, int64_t *misses) {
    if (!wide)
        return ((const int32_t *)indices)[i];
    int64_t index = ((const int64_t *)indices)[i];
    if (check == UNCHECKED)
        return index;
    index += axis & (index >> 63);
    if (check == SEPARATE)
        return index;
    int64_t missed = (uint64_t)index >= (uint64_t)axis;
    *misses += missed;
    return missed ? 0 : index;
}

INLINE void element(int width, char *out, int64_t to, const char *table, int64_t from) {
    switch (width) {
    case 1: out[to] = table[from]; break;
    case 2: ((uint16_t *)out)[to] = ((const uint16_t *)table)[from]; break;
    case 4: ((uint32_t *)out)[to] = ((const uint32_t *)table)[from]; break;
    default: ((uint64_t *)out)[to] = ((const uint64_t *)table)[from];
    }
}

INLINE void fence(void) {
#ifdef __AVX2__
    _mm_sfence();
#endif
}

#ifdef __AVX2__
INLINE void store_16(char *out, __m128i value, int stream) {
    if (stream)
        _mm_stream_si128((__m128i *)out, value);
    else
        _mm_storeu_si128((__m128i *)out, value);
}

INLINE void store_32(char *out, __m256i value, int stream) {
    if (stream)
        _mm256_stream_si256((__m256i *)out, value);
    else
        _mm256_storeu_si256((__m256i *)out, value);
}

/* A block of elements, each loaded by itself and inserted into a vector. */
INLINE void words(int width, const char *table, const void *indices, int wide, char *out, int64_t axis, int check,
                  int stream, int64_t *misses) {
    int64_t p[BLOCK];
    for (int k = 0; k < BLOCK; k++)
        p[k] = place(indices, wide, k, axis, check, misses);
    const uint8_t *t1 = (const uint8_t *)table;
    const uint16_t *t2 = (const uint16_t *)table;
    const int32_t *t4 = (const int32_t *)table;
    const int64_t *t8 = (const int64_t *)table;
    if (width == 1)
        store_16(out, _mm_setr_epi8(t1[p[0]], t1[p[1]], t1[p[2]], t1[p[3]], t1[p[4]], t1[p[5]], t1[p[6]], t1[p[7]],
                                    t1[p[8]], t1[p[9]], t1[p[10]], t1[p[11]], t1[p[12]], t1[p[13]], t1[p[14]],
                                    t1[p[15]]), stream);
    for (int k = 0; k < BLOCK; k += 8)
        if (width == 2)
            store_16(out + 2 * k, _mm_setr_epi16(t2[p[k]], t2[p[k + 1]], t2[p[k + 2]], t2[p[k + 3]], t2[p[k + 4]],
                                                 t2[p[k + 5]], t2[p[k + 6]], t2[p[k + 7]]), stream);
        else if (width == 4)
            store_32(out + 4 * k, _mm256_setr_epi32(t4[p[k]], t4[p[k + 1]], t4[p[k + 2]], t4[p[k + 3]], t4[p[k + 4]],
                                                    t4[p[k + 5]], t4[p[k + 6]], t4[p[k + 7]]), stream);
        else if (width == 8) {
            store_32(out + 8 * k, _mm256_setr_epi64x(t8[p[k]], t8[p[k + 1]], t8[p[k + 2]], t8[p[k + 3]]), stream);
            store_32(out + 8 * k + 32, _mm256_setr_epi64x(t8[p[k + 4]], t8[p[k + 5]], t8[p[k + 6]], t8[p[k + 7]]),
                     stream);
        }
}

/* Eight positions in 32 bits; a lane of `valid` is all ones where the index is in range. */
INLINE __m256i places_8(const void *indices, int wide, int64_t axis, int check, __m256i *valid, int64_t *misses) {
    *valid = _mm256_set1_epi32(-1);
    if (!wide)
        return _mm256_loadu_si256(indices);
#if WIDE
    __m512i index = _mm512_loadu_si512(indices), size = _mm512_set1_epi64(axis);
    if (check != UNCHECKED)
        index = _mm512_mask_add_epi64(index, _mm512_movepi64_mask(index), index, size);
    if (check == FUSED) {
        __mmask8 inside = _mm512_cmplt_epu64_mask(index, size);
        *misses += __builtin_popcount(0xff & ~inside);
        *valid = _mm256_movm_epi32(inside);
    }
    return _mm512_cvtepi64_epi32(index);
#else
    const __m256i evens = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6), sign = _mm256_set1_epi64x(INT64_MIN);
    const __m256i size = _mm256_set1_epi64x(axis), limit = _mm256_xor_si256(size, sign);
    __m256i half[2], inside[2];
    for (int k = 0; k < 2; k++) {
        half[k] = _mm256_loadu_si256((const __m256i *)indices + k);
        __m256i below = _mm256_cmpgt_epi64(_mm256_setzero_si256(), half[k]);
        if (check != UNCHECKED)
            half[k] = _mm256_add_epi64(half[k], _mm256_and_si256(below, size));
        if (check == FUSED) {
            inside[k] = _mm256_cmpgt_epi64(limit, _mm256_xor_si256(half[k], sign));
            *misses += 4 - __builtin_popcount(_mm256_movemask_pd(_mm256_castsi256_pd(inside[k])));
            inside[k] = _mm256_permutevar8x32_epi32(inside[k], evens);
        }
        half[k] = _mm256_permutevar8x32_epi32(half[k], evens);
    }
    if (check == FUSED)
        *valid = _mm256_blend_epi32(inside[0], inside[1], 0xf0);
    return _mm256_blend_epi32(half[0], half[1], 0xf0);
#endif
}

/* A block by the gather instruction, eight lanes at a time. */
INLINE void lanes_8(int width, const char *table, const void *indices, int wide, char *out, int64_t axis, int check,
                    int stream, int64_t *misses) {
    const __m256i zero = _mm256_setzero_si256();
    for (int k = 0; k < BLOCK; k += 8) {
        __m256i valid, at = places_8((const char *)indices + k * (wide ? 8 : 4), wide, axis, check, &valid, misses);
        if (width == 4)
            store_32(out + 4 * k, check == FUSED ? _mm256_mask_i32gather_epi32(zero, (const int *)table, at, valid, 4)
                                                 : _mm256_i32gather_epi32((const int *)table, at, 4), stream);
        else
            for (int part = 0; part < 2; part++) {
                __m128i lanes = part ? _mm256_extracti128_si256(at, 1) : _mm256_castsi256_si128(at);
                __m256i mask = _mm256_cvtepi32_epi64(part ? _mm256_extracti128_si256(valid, 1)
                                                          : _mm256_castsi256_si128(valid));
                const long long *longs = (const long long *)table;
                store_32(out + 8 * k + 32 * part,
                         check == FUSED ? _mm256_mask_i32gather_epi64(zero, longs, lanes, mask, 8)
                                        : _mm256_i32gather_epi64(longs, lanes, 8), stream);
            }
    }
}
#endif

#if WIDE
INLINE void store_64(char *out, __m512i value, int stream) {
    if (stream)
        _mm512_stream_si512((__m512i *)out, value);
    else
        _mm512_storeu_si512(out, value);
}

/* A block by the gather instruction, sixteen lanes at once; bytes and halves from the aligned words that hold them. */
INLINE void lanes_16(int width, const char *table, const void *indices, int wide, char *out, int64_t axis, int check,
                     int stream, int64_t *misses) {
    __m256i low_valid, high_valid;
    __m256i low = places_8(indices, wide, axis, check, &low_valid, misses);
    __m256i high = places_8((const char *)indices + (wide ? 64 : 32), wide, axis, check, &high_valid, misses);
    __mmask16 valid = _mm256_movepi32_mask(low_valid) | _mm256_movepi32_mask(high_valid) << 8;
    __m512i at = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), zero = _mm512_setzero_si512();
    if (check != FUSED)
        valid = 0xffff;
    if (width == 4) {
        store_64(out, _mm512_mask_i32gather_epi32(zero, valid, at, table, 4), stream);
    } else if (width == 8) {
        store_64(out, _mm512_mask_i32gather_epi64(zero, valid, _mm512_castsi512_si256(at), table, 8), stream);
        store_64(out + 64, _mm512_mask_i32gather_epi64(zero, valid >> 8, high, table, 8), stream);
    } else {
        int by = width == 1 ? 2 : 1;
        __m512i words = _mm512_mask_i32gather_epi32(zero, valid, _mm512_srli_epi32(at, by), table, 4);
        __m512i bits = _mm512_slli_epi32(_mm512_and_si512(at, _mm512_set1_epi32((1 << by) - 1)), 5 - by);
        words = _mm512_srlv_epi32(words, bits);
        if (width == 1)
            store_16(out, _mm512_cvtepi32_epi8(words), stream);
        else
            store_32(out, _mm512_cvtepi32_epi16(words), stream);
    }
}
#endif

/* `n` elements of one table, a block at a time; with NEXT, lines of the next table are prefetched with each block. */
INLINE int64_t scalars(int width, int kernel, int check, int wide, const char *table, const void *indices, char *out,
                       int64_t n, const Job *job) {
    int64_t i = 0, misses = 0, axis = job->axis, near = job->near > 0 ? job->near : 0;
    const int stream = job->stream && kernel != PLAIN;
    const char *next = table + axis * width;
    int64_t lines = job->near == NEXT ? 1 + axis * width / LINE / (n / BLOCK + 1) : 0;
    if (kernel != PLAIN) {
        for (; stream && i < n && ((uintptr_t)(out + i * width) & (LINE - 1)); i++)
            element(width, out, i, table, place(indices, wide, i, axis, check, &misses));
        for (; i + BLOCK <= n; i += BLOCK) {
            if (wide && near && i + near + BLOCK <= n)
                for (int k = 0; k < BLOCK; k++)
                    __builtin_prefetch(table + ((const int64_t *)indices)[i + near + k] * width, 0, 2);
            for (int64_t line = 0; line < lines; line++, next += LINE)
                __builtin_prefetch(next, 0, 3);
#ifdef __AVX2__
            const char *from = (const char *)indices + i * (wide ? 8 : 4);
            if (kernel == WORDS)
                words(width, table, from, wide, out + i * width, axis, check, stream, &misses);
            if (kernel == LANES_8)
                lanes_8(width, table, from, wide, out + i * width, axis, check, stream, &misses);
#endif
#if WIDE
            if (kernel == LANES_16)
                lanes_16(width, table, from, wide, out + i * width, axis, check, stream, &misses);
#endif
        }
    }
    for (; i < n; i++) {
        if (kernel == PLAIN && wide && near && i + near < n)
            __builtin_prefetch(table + ((const int64_t *)indices)[i + near] * width, 0, 2);
        element(width, out, i, table, place(indices, wide, i, axis, check, &misses));
    }
    return misses;
}

/* One row, in vectors; the last of them overlaps the one before it where the row is no multiple. */
INLINE void copy_row(int kernel, int stream, char *out, const char *from, int64_t row) {
    int64_t at = 0;
    (void)kernel, (void)stream; /* one of them without AVX2 */
#if WIDE
    for (; kernel == VECTORS_64 && at + 64 <= row; at += 64)
        store_64(out + at, _mm512_loadu_si512(from + at), stream);
#endif
#ifdef __AVX2__
    for (; kernel == VECTORS_32 && at + 32 <= row; at += 32)
        store_32(out + at, _mm256_loadu_si256((const __m256i *)(from + at)), stream);
    for (; kernel == VECTORS_16 && at + 16 <= row; at += 16)
        store_16(out + at, _mm_loadu_si128((const __m128i *)(from + at)), stream);
#endif
    if (at < row)
        memcpy(out + at, from + at, row - at);
}

/* `n` rows of one table. How they are checked is a number of the job: the compiler makes a loop of each way. */
INLINE int64_t rows(int kernel, int stream, int64_t row, const char *table, const int64_t *indices, char *out,
                    int64_t n, const Job *job) {
    int64_t misses = 0, near = job->near > 0 ? job->near : 0, far = job->far, axis = job->axis, check = job->check;
    for (int64_t i = 0; i < n; i++) {
        if (far && i + far < n)
            for (int64_t at = 0; at < row + LINE; at += LINE)
                __builtin_prefetch(table + indices[i + far] * row + (at < row ? at : row - 1), 0, 2);
        if (near && i + near < n)
            for (int64_t at = 0; at < row + LINE; at += LINE)
                __builtin_prefetch(table + indices[i + near] * row + (at < row ? at : row - 1), 0, 3);
        copy_row(kernel, stream, out + i * row, table + place(indices, 1, i, axis, check, &misses) * row, row);
    }
    return misses;
}

/* `n` rows of indices, an index for each element. */
INLINE int64_t columns(int kernel, int check, int width, const char *table, const int64_t *indices, char *out,
                       int64_t n, const Job *job) {
    int64_t misses = 0, row = job->columns, axis = job->axis;
    (void)kernel;
    for (int64_t i = 0; i < n; i++, indices += row, out += row * width) {
        int64_t j = 0;
#if WIDE
        const __m512i count = _mm512_set1_epi32(row), zero = _mm512_setzero_si512();
        __m512i column = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for (; kernel == LANES_16 && width == 4 && j + BLOCK <= row; j += BLOCK) {
            for (int k = 0; job->near && j + job->near + BLOCK <= row && k < BLOCK; k++)
                __builtin_prefetch(table + (indices[j + job->near + k] * row + j + job->near + k) * width, 0, 2);
            __m256i low_valid, high_valid;
            __m256i low = places_8(indices + j, 1, axis, check, &low_valid, &misses);
            __m256i high = places_8(indices + j + 8, 1, axis, check, &high_valid, &misses);
            __mmask16 valid = _mm256_movepi32_mask(low_valid) | _mm256_movepi32_mask(high_valid) << 8;
            __m512i at = _mm512_mullo_epi32(_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1), count);
            at = _mm512_add_epi32(at, column);
            column = _mm512_add_epi32(column, _mm512_set1_epi32(BLOCK));
            store_64(out + j * width, _mm512_mask_i32gather_epi32(zero, valid, at, table, 4), 0);
        }
#endif
        for (; j < row; j++) {
            if (job->near && j + job->near < row)
                __builtin_prefetch(table + (indices[j + job->near] * row + j + job->near) * width, 0, 2);
            element(width, out, j, table, place(indices, 1, j, axis, check, &misses) * row + j);
        }
    }
    return misses;
}

/* What one thread does, between two places of all rows of the result. */
typedef struct {
    const Job *job;
    int64_t begin, end, misses;
    int32_t *positions;
} Share;

INLINE int64_t with_row(int kernel, int stream, int64_t row, const char *table, const int64_t *indices, char *out,
                        int64_t n, const Job *job) {
    switch (row) { /* sizes that are worth code of their own */
    case 64: return rows(kernel, stream, 64, table, indices, out, n, job);
    case 256: return rows(kernel, stream, 256, table, indices, out, n, job);
    default: return rows(kernel, stream, row, table, indices, out, n, job);
    }
}

/* A run of indices of one table. */
INLINE int64_t run(int kernel, int check, int64_t width, const char *table, const int64_t *indices, char *out,
                   int64_t n, const Job *job) {
    if (kernel >= COPY)
        return kernel == COPY ? rows(COPY, 0, width, table, indices, out, n, job)
               : job->stream  ? with_row(kernel, 1, width, table, indices, out, n, job)
                              : with_row(kernel, 0, width, table, indices, out, n, job);
    if (kernel == PLAIN && job->columns)
        return width == 1   ? columns(kernel, check, 1, table, indices, out, n, job)
               : width == 2 ? columns(kernel, check, 2, table, indices, out, n, job)
               : width == 4 ? columns(kernel, check, 4, table, indices, out, n, job)
                            : columns(kernel, check, 8, table, indices, out, n, job);
    if (kernel == LANES_16 && job->columns)
        return columns(kernel, check, 4, table, indices, out, n, job);
    return width == 1 && kernel != LANES_8   ? scalars(1, kernel, check, 1, table, indices, out, n, job)
           : width == 2 && kernel != LANES_8 ? scalars(2, kernel, check, 1, table, indices, out, n, job)
           : width == 4                      ? scalars(4, kernel, check, 1, table, indices, out, n, job)
                                             : scalars(8, kernel, check, 1, table, indices, out, n, job);
}

INLINE int64_t staged_run(int kernel, int64_t width, const char *table, const int32_t *at, char *out, const Job *job) {
    return width == 1 && kernel != LANES_8   ? scalars(1, kernel, UNCHECKED, 0, table, at, out, job->count, job)
           : width == 2 && kernel != LANES_8 ? scalars(2, kernel, UNCHECKED, 0, table, at, out, job->count, job)
           : width == 4                      ? scalars(4, kernel, UNCHECKED, 0, table, at, out, job->count, job)
                                             : scalars(8, kernel, UNCHECKED, 0, table, at, out, job->count, job);
}

INLINE void walk(int kernel, int check, Share *share) {
    const Job *job = share->job;
    int64_t misses = 0, line = job->columns ? job->columns : 1, slice = job->row * line;
    for (int64_t at = share->begin; at < share->end;) {
        int64_t table = at / job->count, first = at % job->count, batch = table / job->outer;
        int64_t n = job->count - first < share->end - at ? job->count - first : share->end - at;
        if (kernel >= COPY && job->near == NEXT && table + 1 < job->batches * job->outer) {
            const int64_t *later = job->indices + (table + 1) / job->outer * job->count;
            for (int64_t i = 0; i < job->count; i++)
                for (int64_t byte = 0; byte < slice; byte += LINE)
                    __builtin_prefetch(job->data + ((table + 1) * job->axis + later[i]) * slice + byte, 0, 3);
        }
        misses += run(kernel, check, job->row, job->data + table * job->axis * slice,
                      job->indices + (batch * job->count + first) * line, job->out + at * slice, n, job);
        at += n;
    }
    share->misses = misses;
    if (job->stream)
        fence();
}

/* The same with the indices of a batch resolved once: a share is of whole tables. */
INLINE void walk_staged(int kernel, Share *share) {
    const Job *job = share->job;
    int64_t misses = 0, resolved = -1;
    for (int64_t table = share->begin; table < share->end; table++) {
        int64_t batch = table / job->outer;
        const int64_t *indices = job->indices + batch * job->count;
        if (batch != resolved)
            for (int64_t i = 0; i < job->count; i++)
                share->positions[i] = place(indices, 1, i, job->axis, job->check, &misses);
        resolved = batch;
        staged_run(kernel, job->row, job->data + table * job->axis * job->row, share->positions,
                   job->out + table * job->count * job->row, job);
    }
    share->misses = misses;
    if (job->stream)
        fence();
}

enum { BY_CHECK = 100, STAGED = 300 };
#define CHECKED(name) case SEPARATE * BY_CHECK + name: walk(name, SEPARATE, share); break; \
    case FUSED * BY_CHECK + name: walk(name, FUSED, share); break; case name: walk(name, UNCHECKED, share); break;
#define ROWS(name) case name: walk(name, UNCHECKED, share); break;

static void copy_share(Share *share) {
    const Job *job = share->job;
    switch (job->kernel + (job->staged ? STAGED : job->kernel < COPY ? job->check * BY_CHECK : 0)) {
    CHECKED(PLAIN) CHECKED(WORDS) CHECKED(LANES_8) CHECKED(LANES_16)
    ROWS(COPY) ROWS(VECTORS_16) ROWS(VECTORS_32) ROWS(VECTORS_64) /* each looks at the job for its check */
    case STAGED + PLAIN: walk_staged(PLAIN, share); break;
    case STAGED + WORDS: walk_staged(WORDS, share); break;
    case STAGED + LANES_8: walk_staged(LANES_8, share); break;
    case STAGED + LANES_16: walk_staged(LANES_16, share); break;
    }
}

static void check_share(Share *share) {
    int64_t misses = 0, axis = share->job->axis;
    for (int64_t i = share->begin; i < share->end; i++) {
        int64_t index = share->job->indices[i];
        index += axis & (index >> 63);
        misses += (uint64_t)index >= (uint64_t)axis;
    }
    share->misses = misses;
}

/* A pool of threads that spin for some microseconds after their work and then sleep; shares are static. */
static Share shares[256];
static void (*task)(Share *);
static atomic_uint launch;
static atomic_int left, sleeping, workers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;

INLINE void relax(void) {
#ifdef __AVX2__
    _mm_pause();
#endif
}

static void *member(void *number) {
    for (unsigned seen = 0;; seen++) {
        for (int spin = 0; atomic_load(&launch) == seen && spin < SPINS; spin++)
            relax();
        if (atomic_load(&launch) == seen) {
            pthread_mutex_lock(&lock);
            atomic_fetch_add(&sleeping, 1);
            while (atomic_load(&launch) == seen)
                pthread_cond_wait(&wake, &lock);
            atomic_fetch_sub(&sleeping, 1);
            pthread_mutex_unlock(&lock);
        }
        task(&shares[(intptr_t)number]);
        atomic_fetch_sub(&left, 1);
    }
    return NULL;
}

/* Split `total` between the threads, in multiples of `unit`, and return the sum of what they missed. */
static int64_t in_parallel(void (*what)(Share *), const Job *job, int64_t total, int64_t unit) {
    int threads = job->threads;
    int64_t units = (total + unit - 1) / unit, misses = 0;
    for (int k = 0; k < threads; k++) {
        shares[k].job = job;
        shares[k].begin = units * k / threads * unit;
        shares[k].end = k + 1 == threads ? total : units * (k + 1) / threads * unit;
        if (job->staged && shares[k].positions == NULL)
            shares[k].positions = malloc(1 << 20);
    }
    if (threads > 1) {
        task = what;
        for (int started = atomic_load(&workers); started + 1 < threads; started = atomic_fetch_add(&workers, 1) + 1) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, member, (void *)(intptr_t)(started + 1)))
                abort();
        }
        atomic_store(&left, threads - 1);
        atomic_fetch_add(&launch, 1);
        if (atomic_load(&sleeping)) {
            pthread_mutex_lock(&lock);
            pthread_cond_broadcast(&wake);
            pthread_mutex_unlock(&lock);
        }
    }
    what(&shares[0]);
    for (int spin = 0; threads > 1 && atomic_load(&left); spin++)
        if (spin < SPINS)
            relax();
        else
            sched_yield();
    for (int k = 0; k < threads; k++)
        misses += shares[k].misses;
    return misses;
}

static void *allocated(int64_t bytes) {
    void *made = aligned_alloc(LINE, (bytes + LINE - 1) / LINE * LINE);
#ifdef MADV_HUGEPAGE
    if (made && bytes >= HUGE_PAGES_FROM)
        madvise((void *)(((uintptr_t)made + 4095) & ~(uintptr_t)4095), bytes - 4096, MADV_HUGEPAGE);
#endif
    return made;
}

/* Whether this build has the kernel for rows of so many bytes. */
int has_kernel(int64_t kernel, int64_t row, int64_t columns) {
    int narrow = row == 1 || row == 2, scalar = narrow || row == 4 || row == 8;
#ifdef __AVX2__
    int avx2 = 1;
#else
    int avx2 = 0;
#endif
    switch (kernel) {
    case PLAIN: return scalar;
    case WORDS: return avx2 && scalar && !columns;
    case LANES_8: return avx2 && scalar && !narrow && !columns;
    case LANES_16: return WIDE && scalar && (!columns || row == 4);
    case COPY: return !scalar;
    case VECTORS_16: return avx2 && !scalar && row >= 16;
    case VECTORS_32: return avx2 && !scalar && row >= 32;
    default: return WIDE && !scalar && row >= 64;
    }
}

/* Run a job and return how often an index was found out of range; with `threads` above 1, the same number in every call.
 * With `fresh` the result is new memory, in `out`, which the next such call frees. */
int64_t gather(Job *job) {
    static void *last;
    int64_t line = job->columns ? job->columns : 1, rows_of_all = job->batches * job->outer * job->count;
    if (job->fresh) {
        free(last);
        job->out = last = allocated(rows_of_all * line * job->row);
    }
    if (job->check == SEPARATE) {
        int64_t misses = in_parallel(check_share, job, job->batches * job->count * line, BLOCK);
        if (misses)
            return misses;
    }
    return job->staged ? in_parallel(copy_share, job, job->batches * job->outer, 1)
                       : in_parallel(copy_share, job, rows_of_all, job->columns ? 1 : 2 * LINE);
}
