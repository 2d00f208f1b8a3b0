// out[o] = fold over q of f(inputs at (o, q)), q in vectors of $W
//
//   $G items a result, $L results a work-group; the items of a result walk the s-th $CHUNK of $Q vectors in strides of $G (s: the group's second
//   number), then merge in a tree in local memory, so the order of the fold, and with it the result, is the same on every run
__kernel __attribute__((reqd_work_group_size($GROUP, 1, 1)))
void $name($params) {
    $begin
$locals
    const uint l = get_local_id(0), m = l % $G;
    const size_t o = get_group_id(0) * $L + l / $G;
    const $index q0 = get_group_id(1) * $CHUNK, q1 = min(q0 + $CHUNK, ($index)$Q);
$init
    if (o < $O) {
$block
        #pragma unroll 4
        for ($index q = $start; q < $stop; q += $G) {
            const size_t r = q / $PER, j = q % $PER * $W;
$body
        }
$end_block
    }
$join
$park
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint s = $G / 2; s; s /= 2) {
        if (m < s) {
$tree
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (m == 0 && o < $O) {
$collect
$finish
    }
}
