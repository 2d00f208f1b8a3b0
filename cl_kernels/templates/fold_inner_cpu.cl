// out[o] = fold over (r, j) of f(inputs at (o, r, j)); the lanes of the accumulators run along j
//
//   grid ($items), local size 1: a work-item owns results [o0, o1) of $O; j walks $J in vectors of $W, r walks $R
$functions
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void $name($params) {
    $begin
    const size_t o0 = get_global_id(0) * $chunk, o1 = min(o0 + $chunk, (size_t)$O);
    for (size_t o = o0; o < o1; ++o) {
$init
        for (size_t r = 0; r < $R; ++r) {
            size_t j = 0;
$vector_loop
            for (; j < $J; ++j) {
$scalar_body
            }
        }
$join
$finish
    }
}
