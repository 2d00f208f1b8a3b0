// out[o] = fold over (r, j) of f(inputs at (o, r, j)); the lanes of the accumulators run along j
//
//   grid ($items), local size 1: a work-item owns results [o0, o1) of $O; j walks $J in vectors of $W, r walks $R. Blocks of $RB x $JB are folded
//   on their own and merged in their order: a sum stays near the size of what is added to it
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void $name($params) {
    $begin
    $results
    for (size_t o = o0; o < o1; ++o) {
$init
        for (size_t r0 = 0; r0 < $R; r0 += $RB) for (size_t j0 = 0; j0 < $J; j0 += $JB) {
            const size_t r1 = $r1, j1 = $j1;
$begin_block
            for (size_t r = r0; r < r1; ++r) {
                size_t j = j0;
$loops
            }
$end_block
        }
$join
$finish
    }
}
