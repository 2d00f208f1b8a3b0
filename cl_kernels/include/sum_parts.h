// sum_parts.h: kernel SUM_PARTS: y = sum of PARTS arrays of SIZE elements that lie one after the other in `partial`, in order, through the epilogue of a
// flat domain. Grid (SIZE / CHUNK), local size 1: CHUNK elements a work-item.

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void SUM_PARTS(PARAMS) {
    BEGIN
    const size_t first = get_global_id(0) * CHUNK, end = min(first + CHUNK, (size_t)SIZE);
    __global const T* from = (__global const T*)partial;
    size_t i = first;
    for (; i + VW <= end; i += VW) {
        VT sum = VLOAD(from + i);
        for (size_t p = 1; p < PARTS; p++) sum += VLOAD(from + p * SIZE + i);
        EPILOGUE_V(i, sum);
    }
    ROLLED for (; i < end; i++) {
        T sum = from[i];
        ROLLED for (size_t p = 1; p < PARTS; p++) sum += from[p * SIZE + i];
        EPILOGUE(i, sum);
    }
}
