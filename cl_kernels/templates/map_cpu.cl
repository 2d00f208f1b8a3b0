// out[o, j] = f(inputs at (o, j))
//
//   grid ($items_j, $items_o), local size 1: a work-item owns rows [o0, o1) and columns [j0, j1) of the domain ($O, $J),
//   walks the columns in vectors of $W and finishes them one by one
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void $name($params) {
    $begin
    $columns
    $rows
    for (size_t o = o0; o < o1; ++o) {
        size_t j = j0;
$loops
    }
}
