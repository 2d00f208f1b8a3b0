// out[o] = fold over q of f(inputs at (o, q)), q in vectors of $W, $Q of them: few
//
//   $L items of a work-group of $G for each o walk its vectors, then merge in a tree in local memory,
//   so the order of the fold, and with it the result, is the same on every run
__kernel __attribute__((reqd_work_group_size($G, 1, 1)))
void $name($params) {
    $begin
$locals
    const size_t o = get_global_id(0) / $L;
    const uint l = get_local_id(0);
$init
    for (uint q = l % $L; o < $O && q < $Q; q += $L) {
        const size_t j = q * $W;
$body
    }
$join
$park
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint s = $L / 2; s; s /= 2) {
        if (l % $L < s) {
$tree
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l % $L == 0 && o < $O) {
$collect
$finish
    }
}
