// out[o, j] = f(inputs at (o, j))
//
//   grid ($items_j, $items_o), local size 1: a work-item owns rows [o0, o1) and columns [j0, j1) of the domain ($O, $J),
//   walks the columns in vectors of $W and finishes them one by one
$functions
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void $name($params) {
    $begin
    const size_t j0 = get_global_id(0) * $chunk_j, j1 = min(j0 + $chunk_j, (size_t)$J);
    const size_t o0 = get_global_id(1) * $chunk_o, o1 = min(o0 + $chunk_o, (size_t)$O);
    for (size_t o = o0; o < o1; ++o) {
        size_t j = j0;
$vector_loop
        for (; j < j1; ++j) {
$scalar_body
        }
    }
}
