// out[o] = fold over r of f(inputs at (o, r))
//
//   grid $O work-groups of $G: the items of a group walk r over $R in strides of $G, then merge in a tree in local memory,
//   so the order of the fold, and with it the result, is the same on every run
$functions
__kernel __attribute__((reqd_work_group_size($G, 1, 1)))
void $name($params) {
    $begin
$locals
    const size_t o = get_group_id(0), l = get_local_id(0);
$init
    for (size_t r = l; r < $R; r += $G) {
$scalar_body
    }
$park
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t s = $G / 2; s; s /= 2) {
        if (l < s) {
$tree
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l == 0) {
$collect
$finish
    }
}
