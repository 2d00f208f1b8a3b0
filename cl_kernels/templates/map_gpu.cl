// out[o, j] = f(inputs at (o, j)), j a multiple of $W          one work-item per $W elements of a row, $items in all
__kernel void $name($params) {
    $begin
    const $index i = get_global_id(0);
    if (i >= $items) return;
    const size_t o = i / $J, j = i % $J * $W;
$body
}
