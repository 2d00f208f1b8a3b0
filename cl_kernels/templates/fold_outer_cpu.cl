// out[o, j] = fold over r of f(inputs at (o, r, j)); the lanes of the accumulators run along the results j
//
//   grid ($items_j, $O), local size 1: a work-item owns columns [j0, j1) of $J and walks r over $R for a few vectors of them at a time,
//   in blocks that are merged in their order: a sum stays near the size of what is added to it
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void $name($params) {
    $begin
    const size_t o = get_global_id(1);
    $columns
    size_t j = j0;
$loops
}
