// group.h: a work-group of GROUP items that takes TILE = GROUP EACH elements, EACH an item. Included by kernels of GPUs that walk over rows.
//
//   WAIT               all items of the group have come here, and what they wrote to local memory is seen
//   EVERY(k) ...       for the tile's elements k, neighbouring items taking neighbours
//   PART, NOTHING      what is combined across the group, and what adds nothing to it: says who includes this, as uint and 0
//   JOINED(a, b)       b, which comes behind a, combined with it: an expression or a function of the includer's
//   before_items(own, parts, &all)   what the parts of all items before this one come to, in their order; `all`: those of the whole
//                      group. `parts` are PARTS_LENGTH PARTs of local memory. The order of combining depends on GROUP alone.
//
// GROUP is a power of two; EACH is odd, so that no two items meet in a bank.

#ifndef GROUP
#define GROUP 256
#endif
#ifndef EACH
#define EACH 15                 // elements an item
#endif
#define TILE (GROUP * EACH)
#define WAIT barrier(CLK_LOCAL_MEM_FENCE);
#define EVERY(k) UNROLL for (uint e = 0, k = l; e < EACH; e++, k += GROUP)

#define RUN_LENGTH (GROUP < 16 ? GROUP : 16)    // parts that one item combines, before one does so with what the runs come to
#define RUNS (GROUP / RUN_LENGTH)
#define PARTS_LENGTH (GROUP + RUNS + RUNS + 1)
#define PART_AT(i) ((i) + (i) / RUN_LENGTH)     // one more behind each run: no two items meet in a bank

INLINE PART before_items(const PART own, __local PART* parts, PART* all) {
    const uint l = get_local_id(0), run = l / RUN_LENGTH;
    __local PART* const sums = parts + GROUP + RUNS;
    parts[PART_AT(l)] = own;
    WAIT
    if (l < RUNS) {
        PART sum = NOTHING;
        UNROLL for (uint k = 0; k < RUN_LENGTH; k++) {
            const PART next = parts[PART_AT(l * RUN_LENGTH + k)];
            parts[PART_AT(l * RUN_LENGTH + k)] = sum;
            sum = JOINED(sum, next);
        }
        sums[l] = sum;
    }
    WAIT
    if (l == 0) {
        PART sum = NOTHING;
        UNROLL for (uint k = 0; k < RUNS; k++) {
            const PART next = sums[k];
            sums[k] = sum;
            sum = JOINED(sum, next);
        }
        sums[RUNS] = sum;
    }
    WAIT
    *all = sums[RUNS];
    const PART before = JOINED(sums[run], parts[PART_AT(l)]);
    WAIT
    return before;
}
