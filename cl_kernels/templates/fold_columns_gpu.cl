// out[o] = fold over r of f(inputs at (o, r))          one work-item per result, neighbours read neighbours
$functions
__kernel void $name($params) {
    $begin
    const size_t o = get_global_id(0);
    if (o >= $O) return;
$init
    for (size_t r = 0; r < $R; ++r) {
$scalar_body
    }
$finish
}
