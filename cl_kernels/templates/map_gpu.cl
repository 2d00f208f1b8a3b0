// out[i] = f(inputs at i), i = o * $J + j          one work-item per element of the domain ($O, $J)
$functions
__kernel void $name($params) {
    $begin
    const size_t i = get_global_id(0);
    if (i >= (size_t)$O * $J) return;
    const size_t o = i / $J, j = i % $J;
$scalar_body
}
