// out[o, j] = fold over r of f(inputs at (o, j, r)), j in vectors of $W: neighbours read neighbours
//
//   work-group (i, s), of $X x $Y items: $X of $COLUMNS vectors of results; its $Y lines walk the s-th $CHUNK of $R in turn, then merge in a
//   tree in local memory, so the order of the fold, and with it the result, is the same on every run
__kernel __attribute__((reqd_work_group_size($X, $Y, 1)))
void $name($params) {
    $begin
$locals
    const $index c = get_global_id(0);
    const size_t o = c / $PER, j = c % $PER * $W;
    const uint l = get_local_id(1) * $X + get_local_id(0);
    const $index r0 = get_group_id(1) * $CHUNK, r1 = min(r0 + $CHUNK, ($index)$R);
$init
    if (c < $COLUMNS) {
$block
        #pragma unroll 4
        for ($index q = $start; q < $stop; q += $Y) {
            const size_t r = q;
$body
        }
$end_block
    }
$found
$park
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint s = $X * $Y / 2; s >= $X; s /= 2) {
        if (l < s) {
$tree
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l < $X && c < $COLUMNS) {
$collect
$finish
    }
}
