// out[p, m, j] = f(inputs at (p, m, j)), of which some lie along m: they are read as vectors along m, and tiles of them transposed
//
//   grid ($items_j, $items_o), local size 1: a work-item owns tiles [o0, o1) of $O, each of $W of the $M rows m of a p, and columns [j0, j1) of
//   $J; it walks the columns in vectors of $W and finishes rows and columns that fill no tile one by one
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void $name($params) {
    $begin
    $columns
    $rows
    for (size_t o = o0; o < o1; ++o) {
        const size_t p = o / $TILES, m0 = o % $TILES * $W, m1 = m0 + $W < $M ? m0 + $W : $M;
        size_t j = j0;
        if (m1 - m0 == $W) for (; j + $W <= j1; j += $W) {
$tiles
            for (size_t m = m0; m < m0 + $W; ++m) {
$body
            }
        }
        for (; j < j1; ++j) for (size_t m = m0; m < m1; ++m) {
$rest
        }
    }
}
