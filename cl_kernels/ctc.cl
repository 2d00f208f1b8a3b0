// ctc: y(n) = -ln sum of the probabilities of all ways to write the targets of n in its frames         STAGE VALUE
//      y(t, n, c) = d y(n) / d log_probs(t, n, c) = -(how probable it is that frame t writes c)        STAGES POSTERIOR, SCATTER
//
// The extended target l has the labels with a blank before, between and after: L = 2 S + 1 states. Forward, per frame t and state s:
//   e(t, s) = logsumexp(a(t-1, s), a(t-1, s-1), a(t-1, s-2) where l(s) is no blank and not l(s-2)), a(t, s) = e(t, s) + lp(t, l(s)) - top(t)
// where top(t), the row's maximum, keeps the digits of long sequences; its sum is put back at the end. Backward, the share of all
// writings that pass state s at frame t, from the shares at t + 1: each arrives from its up to three predecessors in proportion to
// exp(a(t, s) - e(t+1, s')), so that shares add up to 1 at every frame. Impossible targets: +INFINITY, slope 0. Lengths or labels that
// cannot be: NaN.
//
// FRAMES, BATCH, WIDTH, TOTAL and CHUNK may be arguments.
// Layout: log_probs (FRAMES, BATCH, CLASSES); targets (BATCH, WIDTH), or with PACKED one after the other, TOTAL in all; lengths (BATCH).
// Scratch: rows (BATCH, 2, STATES), two rows of the recursion; e (BATCH, FRAMES, STATES), overwritten by the shares; tops (BATCH, FRAMES);
//   bad (BATCH): 0 or NaN; sums (ITEMS, CLASSES) on CPUs.
// Grid: VALUE, POSTERIOR a group of GROUP items per sample, states dealt out among them (GROUP 1 on CPUs; GROUP numbers of local memory);
//   SCATTER on CPUs CHUNK rows (t, n) per item, on GPUs one element per item. PARAMS, BEGIN, EPILOGUE(...), EPILOGUE_V, T, VW as in matmul.cl.

#define VALUE 1
#define POSTERIOR 2
#define SCATTER 3
#ifndef STAGE
#define STAGE VALUE             // which of them
#endif
#ifndef GROUP
#define GROUP 1                 // work-items per sample
#endif

#define STATES (2 * (size_t)WIDTH + 1)

// Where the labels of sample n start, and how many there are; -1 for lengths that cannot be.
INLINE long span_of(__global const int* restrict lengths, const size_t n, size_t* first SIZES) {
    const long count = lengths[n];
#if PACKED
    long at = 0;
    for (size_t k = 0; k < n; ++k) at += max(lengths[k], 0);
    *first = at;
    return count < 0 || count > WIDTH || at + count > TOTAL ? -1 : count;
#else
    *first = n * WIDTH;
    return count < 0 || count > WIDTH ? -1 : count;
#endif
}

// The label of state s, BLANK where it is one; what is no class is caught by `sound` before.
INLINE size_t label_of(__global const int* restrict mine, const size_t s) { return s & 1 ? (size_t)mine[s >> 1] : BLANK; }

INLINE bool sound(__global const int* restrict mine, const long count, const long frames SIZES) {
    if (count < 0 || frames < 0 || frames > FRAMES) return false;
    for (long k = 0; k < count; ++k) if (mine[k] < 0 || mine[k] >= CLASSES) return false;
    return true;
}

// Whether state s may follow s - 2: a label that differs from the one before.
INLINE bool skips(__global const int* restrict mine, const size_t s) { return (s & 1) && s > 1 && mine[s >> 1] != BLANK && mine[s >> 1] != mine[(s >> 1) - 1]; }

// The largest term counts 1, so that two exponentials do; terms that cannot be cost none.
INLINE T log_sum(const T a, const T b, const T c) {
    const T high = max(a, b), top = max(high, c), low = min(a, b), middle = min(high, c);
    if (a != a || b != b || c != c) return a + b + c;
    if (isinf(top)) return top;
    return top + log(1 + (low == -INFINITY ? (T)(0) : exp(low - top)) + (middle == -INFINITY ? (T)(0) : exp(middle - top)));
}

#if STAGE != SCATTER

#if GROUP > 1
#define SYNC barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#else
#define SYNC
#endif
#define LP(t, s) log_probs[((t) * BATCH + n) * CLASSES + label_of(mine, s)]
#define ROW(t) (row + ((t) & 1) * STATES)

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void ctc(PARAMS) {
    BEGIN;
    __local T tree[GROUP];
    const size_t n = get_group_id(0), l = get_local_id(0);
    size_t first;
    const long count = span_of(target_lengths, n, &first SIZES_PASSED), frames = input_lengths[n];
    __global const int* restrict mine = targets + first;
    const bool good = sound(mine, count, frames SIZES_PASSED);
    const size_t states = good ? 2 * count + 1 : 1, last = good ? frames : 0;
    __global T* row = (__global T*)rows + n * 2 * STATES;
#if STAGE == POSTERIOR
    __global T* share = (__global T*)e + n * FRAMES * STATES;
    __global T* top_of = (__global T*)tops + n * FRAMES;
#endif
    T total = 0, lost = 0, top = 0;
    for (size_t t = 0; t < last; ++t) {
        T most = -INFINITY;
        for (size_t s = l; s < states; s += GROUP) {
            const __global T* before = ROW(t + 1);
            const T here = t == 0 ? (s < 2 ? (T)(0) : (T)(-INFINITY))
                : log_sum(before[s] - top, s > 0 ? before[s - 1] - top : (T)(-INFINITY), skips(mine, s) ? before[s - 2] - top : (T)(-INFINITY));
            const T now = here + LP(t, s);
            ROW(t)[s] = now;
#if STAGE == POSTERIOR
            share[t * STATES + s] = here;
#endif
            most = now > most || now != now ? now : most;
        }
        tree[l] = most;
        SYNC;
        for (size_t k = 0; k < GROUP; ++k) most = tree[k] > most || tree[k] != tree[k] ? tree[k] : most;
        top = isinf(most) ? (T)(0) : most;
        // The sum of the maxima, with what each addition lost.
        const T added = top - lost, sum = total + added;
        lost = (sum - total) - added;
        total = sum;
#if STAGE == POSTERIOR
        if (l == 0) top_of[t] = top;
#endif
        SYNC;
    }
    const T end = last ? ROW(last + 1)[states - 1] - top : (count == 0 ? (T)(0) : (T)(-INFINITY));
    const T end_label = last && states > 1 ? ROW(last + 1)[states - 2] - top : (T)(-INFINITY);
    const T found = log_sum(end, end_label, -INFINITY);
#if STAGE == VALUE
    if (l == 0) { const T value = good ? -(total + found) : (T)(NAN); EPILOGUE(n, value); }
#else
    if (l == 0) ((__global T*)bad)[n] = good ? (T)(0) : (T)(NAN);
    SYNC;
    for (size_t s = l; s < states && last; s += GROUP) {
        const T a = s + 1 == states ? end : s + 2 == states ? end_label : (T)(-INFINITY);
        ROW(last)[s] = found == -INFINITY ? (T)(0) : exp(a - found);
    }
    SYNC;
    // ROW(t + 1) holds the shares of frame t while those of t - 1 are made from them.
    for (size_t t = last; t-- > 0;) {
        const __global T* after = ROW(t + 1);
        if (t > 0)
            for (size_t s = l; s < states; s += GROUP) {
                const T a = share[(t - 1) * STATES + s] + LP(t - 1, s) - top_of[t - 1];
                T sum = 0;
                for (size_t k = s; k < min(s + 3, states); ++k)
                    if (after[k] != 0 && (k < s + 2 || skips(mine, k))) sum += after[k] * exp(a - share[t * STATES + k]);
                ROW(t)[s] = sum;
            }
        SYNC;
        for (size_t s = l; s < states; s += GROUP) share[t * STATES + s] = after[s];
        SYNC;
    }
#endif
}

#else

__kernel void scatter(PARAMS) {
    BEGIN;
    const __global T* share = (__global T*)e;
#if GPU
    const size_t i = get_global_id(0), c = i % CLASSES, r = i / CLASSES;
    if (r >= (size_t)FRAMES * BATCH) return;
    const size_t t = r / BATCH, n = r % BATCH;
    size_t first;
    const long count = span_of(target_lengths, n, &first SIZES_PASSED);
    __global const int* restrict mine = targets + first;
    T sum = ((__global T*)bad)[n];
    if (sum == 0 && (long)t < input_lengths[n]) {
        const __global T* from = share + (n * FRAMES + t) * STATES;
        if (c == BLANK) for (long s = 0; s <= count; ++s) sum -= from[2 * s];
        for (long k = 0; k < count; ++k) if (mine[k] == c) sum -= from[2 * k + 1];
    }
    EPILOGUE(t, n, c, sum);
#else
    __global T* to = (__global T*)sums + get_global_id(0) * CLASSES;
    const size_t r0 = get_global_id(0) * CHUNK, r1 = min(r0 + CHUNK, (size_t)FRAMES * BATCH);
    for (size_t r = r0; r < r1; ++r) {
        const size_t t = r / BATCH, n = r % BATCH;
        size_t first;
        const long count = span_of(target_lengths, n, &first SIZES_PASSED);
        __global const int* restrict mine = targets + first;
        const T none = ((__global T*)bad)[n];
        for (size_t c = 0; c < CLASSES; ++c) to[c] = none;
        if (none == 0 && (long)t < input_lengths[n]) {
            const __global T* from = share + (n * FRAMES + t) * STATES;
            T blanks = 0;
            for (long k = 0; k < count; ++k) {
                blanks += from[2 * k];
                to[mine[k]] -= from[2 * k + 1];
            }
            to[BLANK] -= blanks + from[2 * count];
        }
        size_t c = 0;
#if VW > 1
        for (; c + VW <= CLASSES; c += VW) { EPILOGUE_V(t, n, c, VLOAD(to + c)); }
#endif
        for (; c < CLASSES; ++c) { EPILOGUE(t, n, c, to[c]); }
    }
#endif
}
#endif
